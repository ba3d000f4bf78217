"""Asks a `SyntheticModel` without a socket."""

import json
from typing import Any

from sagemaker_vllm.emulator import AnyReply, RecordedRequest, Reply, SyntheticModel
from sagemaker_vllm.emulator._rendering import render_chunks, render_json


def send(
    body: Any, model: SyntheticModel | None = None, content_type: str = "application/json"
) -> AnyReply:
    """Give a model a request; a `str` is the body as it is."""
    raw = body if isinstance(body, str) else json.dumps(body)
    headers = {"Content-Type": content_type}
    request = RecordedRequest("InvokeEndpoint", "emulated", headers, raw.encode())
    return (model or SyntheticModel())(request)


def answer(text: str, model: SyntheticModel | None = None, **parameters: Any) -> dict[str, Any]:
    """Give the JSON answer to one user message."""
    body = {"messages": [{"role": "user", "content": text}], **parameters}
    return render(body, model)


def render(body: dict[str, Any], model: SyntheticModel | None = None) -> dict[str, Any]:
    """Give the JSON answer to a request."""
    reply = send(body, model)
    assert isinstance(reply, Reply), reply
    return render_json(reply, body)


def message(text: str, model: SyntheticModel | None = None, **parameters: Any) -> dict[str, Any]:
    """Give the message that answers one user message."""
    found: dict[str, Any] = answer(text, model, **parameters)["choices"][0]["message"]
    return found


def calls(text: str, *tools: dict[str, Any], **parameters: Any) -> list[tuple[str, Any]]:
    """Give name and arguments of the calls that answer one user message."""
    found = message(text, tools=list(tools), **parameters).get("tool_calls", [])
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in found]


def deltas(text: str, model: SyntheticModel | None = None, **parameters: Any) -> list[Any]:
    """Give the streamed choices that answer one user message."""
    body = {"messages": [{"role": "user", "content": text}], "stream": True, **parameters}
    reply = send(body, model)
    assert isinstance(reply, Reply), reply
    return [choice for chunk in render_chunks(reply, body) for choice in chunk["choices"]]


def tool(
    name: str, description: str = "", required: list[str] | None = None, /, **properties: Any
) -> dict[str, Any]:
    """Write a tool of a request; all properties are required unless said."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}
