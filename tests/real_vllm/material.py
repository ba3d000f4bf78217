"""What the tests ask about: tools, pictures, and texts that the model is made to write."""

import base64
import io
import re
from collections.abc import Mapping
from typing import Any, Literal

from PIL import Image

COLOURS = {
    "red": (255, 0, 0),
    "green": (0, 160, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "white": (255, 255, 255),
    "black": (0, 0, 0),
}


def tool(name: str, *, strict: bool = False, **properties: Any) -> dict[str, Any]:
    """Make a tool whose arguments are all required."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": name.replace("_", " "), "parameters": schema}
    # vLLM holds a forced call to its schema only with `strict`.
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


CITY = {"type": "string", "enum": ["Paris", "London", "Rome"]}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
GET_WEATHER = tool("get_weather", strict=True, city=CITY)
ADD = tool("add", strict=True, a=DIGIT, b=DIGIT)
# For calls that the model is made to write: a strict tool would take precedence.
TOOLS = [tool("get_weather", city=CITY), tool("add", a=DIGIT, b=DIGIT)]
WEATHER_QUESTION = "What is the weather in Paris?"


def named(name: str) -> dict[str, Any]:
    """Make the `tool_choice` that forces one tool."""
    return {"type": "function", "function": {"name": name}}


def writing(text: str) -> dict[str, Any]:
    """Make vLLM write exactly this text, so that its own parsers and stream are what is seen.

    A model of this size does not call tools or stop at words by itself.
    """
    return {"structured_outputs": {"regex": re.sub(r"([^\w\s<>/\"':,!=&~-])", r"\\\1", text)}}


def markup(name: str, arguments: str) -> str:
    """Write a call as the model would, in the form that the server's parser reads."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def picture(colour: str, kind: Literal["PNG", "JPEG"] = "PNG") -> bytes:
    """Paint a plain picture."""
    content = io.BytesIO()
    Image.new("RGB", (8, 8), COLOURS[colour]).save(content, kind)
    return content.getvalue()


def picture_part(colour: str, kind: Literal["PNG", "JPEG"] = "PNG") -> dict[str, Any]:
    """Make the content part of a plain picture."""
    content = base64.b64encode(picture(colour, kind)).decode()
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/{kind.lower()};base64,{content}"},
    }


def text_part(text: str) -> dict[str, Any]:
    """Make a content part of text."""
    return {"type": "text", "text": text}


def user(content: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Make a message of the user."""
    return {"role": "user", "content": content}


def schema_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make the `response_format` of a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def colours_schema(*names: str) -> dict[str, Any]:
    """Make the schema of an object that gives a colour to each name."""
    return {
        "type": "object",
        "properties": {name: {"enum": list(COLOURS)} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }
