"""TypedDicts of every form give a schema with the right types, keys and descriptions."""

from typing import Annotated, Any, Literal, NotRequired, Optional, Required, TypedDict

import pytest
import typing_extensions

from langchain_sagemaker_vllm._typed_dict import typed_dict_schema


class Plain(TypedDict):
    """A plain one."""

    name: str


class Partial(TypedDict, total=False):
    """One whose keys are optional."""

    name: str
    age: Required[Annotated[int, ..., "In years."]]


class Optionals(TypedDict):
    """One with optional keys."""

    name: Annotated[str, ..., "The name."]
    note: NotRequired[str]
    limit: Annotated[int, 10, "How many."]
    mode: Annotated[Literal["a", "b"] | None, None]


class Extended(typing_extensions.TypedDict):
    """One of typing_extensions."""

    name: str


class Bare(TypedDict):
    """One with a default but no description, and metadata inside another type."""

    size: Annotated[int, 3]
    names: list[Annotated[str, "a name"]]


class Nested(TypedDict):
    """One that holds others."""

    many: list[Partial]
    by_name: dict[str, Plain]
    maybe: Plain | None
    older: Optional[Plain]  # noqa: UP045  # the older spelling
    either: Literal["a", "b"]
    other: Extended


@pytest.mark.parametrize("cls", [Plain, Extended])
def test_a_plain_one_has_its_name_and_keys(cls: type) -> None:
    schema = typed_dict_schema(cls)

    assert schema["title"] == cls.__name__
    assert schema["description"] == cls.__doc__
    assert schema["properties"] == {"name": {"title": "Name", "type": "string"}}
    assert schema["required"] == ["name"]


def test_optional_keys_are_not_required() -> None:
    assert typed_dict_schema(Partial)["required"] == ["age"]
    assert typed_dict_schema(Optionals)["required"] == ["name"]


def test_annotations_are_default_and_description() -> None:
    properties = typed_dict_schema(Optionals)["properties"]

    assert properties["name"]["description"] == "The name."
    assert properties["limit"] == {
        "title": "Limit",
        "type": "integer",
        "default": 10,
        "description": "How many.",
    }
    assert properties["mode"]["default"] is None


def test_a_default_needs_no_description() -> None:
    schema = typed_dict_schema(Bare)

    assert schema["properties"]["size"] == {"title": "Size", "type": "integer", "default": 3}
    assert schema["properties"]["names"]["items"] == {"type": "string"}
    assert schema["required"] == ["names"]


def test_those_inside_are_converted_too() -> None:
    schema = typed_dict_schema(Nested)
    properties: dict[str, Any] = schema["properties"]

    assert schema["$defs"].keys() == {"Partial", "Plain", "Extended"}
    assert schema["$defs"]["Partial"]["required"] == ["age"]
    assert properties["many"]["items"] == {"$ref": "#/$defs/Partial"}
    assert properties["by_name"]["additionalProperties"] == {"$ref": "#/$defs/Plain"}
    assert properties["maybe"] == properties["older"]
    assert properties["either"]["enum"] == ["a", "b"]
