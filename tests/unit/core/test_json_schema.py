"""Schemas become `response_format`, answers become JSON values, and nothing is repaired."""

import copy
import json
import re
from typing import Any, Generic, Literal, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.v1 import BaseModel as BaseModelV1

from sagemaker_vllm._errors import ConfigurationError, StructuredOutputError
from sagemaker_vllm._json_schema import parse_json, response_format, schema_name

SCHEMA = {
    "type": "object",
    "title": "Person",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

T = TypeVar("T")


class Person(BaseModel):
    """A person."""

    name: str
    scores: dict[str, int] = {}
    mode: Literal["a", "b"] = "a"


class PersonV1(BaseModelV1):
    """A person, in the older Pydantic."""

    name: str


class Box(BaseModel, Generic[T]):
    """A generic box."""

    value: T


class Opaque:
    """A class without a schema."""


class Unserialisable(BaseModel, arbitrary_types_allowed=True):
    """A model whose field has no JSON schema."""

    value: Opaque


class WrongSchema:
    """A class whose schema is no mapping."""

    @classmethod
    def schema(cls) -> str:
        """Return something else."""
        return "nothing"


def inner(format_: dict[str, Any]) -> dict[str, Any]:
    """Return the `json_schema` member after checking the outer shape."""
    assert format_.keys() == {"type", "json_schema"}
    assert format_["type"] == "json_schema"
    result: dict[str, Any] = format_["json_schema"]
    return result


@pytest.mark.parametrize(
    "source",
    [
        {"name": "Person", "schema": SCHEMA},
        {"name": "Person", "parameters": SCHEMA},
        {"name": "Person", "input_schema": SCHEMA},
        {"type": "function", "function": {"name": "Person", "parameters": SCHEMA}},
        {"type": "json_schema", "json_schema": {"name": "Person", "schema": SCHEMA}},
        {"json_schema": {"name": "Person", "schema": SCHEMA}},
        SCHEMA,
    ],
)
def test_every_mapping_gives_the_same_response_format(source: dict[str, Any]) -> None:
    before = copy.deepcopy(source)

    result = response_format(source)

    assert inner(result) == {"name": "Person", "schema": SCHEMA}
    assert source == before


@pytest.mark.parametrize(("model", "name"), [(Person, "Person"), (PersonV1, "PersonV1")])
def test_classes_of_both_pydantic_generations_give_their_schema(model: type, name: str) -> None:
    result = inner(response_format(model))

    assert result["name"] == name
    assert result["schema"]["properties"]["name"]["type"] == "string"


def test_the_schema_is_a_copy() -> None:
    result = response_format(SCHEMA)

    inner(result)["schema"]["properties"]["name"]["type"] = "integer"

    assert SCHEMA["properties"] == {"name": {"type": "string"}}


def test_a_schema_without_a_title_gets_a_name() -> None:
    assert inner(response_format({"type": "object", "properties": {}}))["name"] == "response"


def test_a_generic_class_gets_a_legal_name() -> None:
    assert inner(response_format(Box[int]))["name"] == "Box_int"


def test_a_given_name_wins_and_is_cleaned() -> None:
    assert inner(response_format(SCHEMA, name="my name"))["name"] == "my_name"


@pytest.mark.parametrize("strict", [None, True, False])
def test_strict_is_a_flag_and_never_changes_the_schema(strict: bool | None) -> None:
    result = inner(response_format(Person, strict=strict))

    assert result.get("strict") is strict
    assert result["schema"] == Person.model_json_schema()


def test_a_wrappers_strict_and_description_are_kept() -> None:
    wrapper = {"name": "P", "schema": SCHEMA, "strict": True, "description": "A person."}

    assert inner(response_format(wrapper)) == wrapper


@pytest.mark.parametrize("strict", [True, None])
def test_an_equal_strict_is_no_conflict(strict: bool | None) -> None:
    wrapper = {"name": "P", "schema": SCHEMA, "strict": True}

    assert inner(response_format(wrapper, strict=strict))["strict"] is True


def test_a_conflicting_strict_is_refused() -> None:
    wrapper = {"name": "P", "schema": SCHEMA, "strict": True}

    with pytest.raises(ConfigurationError, match="strict=False conflicts with 'strict': True"):
        response_format(wrapper, strict=False)


@pytest.mark.parametrize(
    "ready",
    [
        {"type": "json_object"},
        {"type": "text"},
        {"type": "structural_tag", "format": {"type": "any_text"}},
    ],
)
def test_other_ready_formats_pass_as_a_copy(ready: dict[str, Any]) -> None:
    result = response_format(ready, strict=True)

    assert result == ready
    assert result is not ready


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"colour": "red"}, r"a mapping with the keys \['colour'\] gives no JSON schema"),
        ({}, r"a mapping with the keys \[\] gives no JSON schema"),
        ({"type": "json_schema"}, "schema has no 'json_schema' mapping inside"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "no JSON schema under 'schema'"),
        ({"type": "function", "function": {"name": "x"}}, "no JSON schema under 'parameters'"),
        ("Person", "schema=a str gives no JSON schema"),
        (None, "schema=a NoneType gives no JSON schema"),
        (Opaque, "schema=Opaque gives no JSON schema"),
        (WrongSchema, "schema=WrongSchema gives no JSON schema"),
        (Unserialisable, "No JSON schema can be made of schema=Unserialisable"),
    ],
)
def test_what_holds_no_schema_is_refused(source: Any, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        response_format(source)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Person", "Person"),
        ("my-schema_2", "my-schema_2"),
        ("_private", "_private"),
        ("Box[int]", "Box_int"),
        ("Два слова", "response"),
        ("Größe der Kiste", "Gr_e_der_Kiste"),
        ("a" * 100, "a" * 64),
        ("", "response"),
        (None, "response"),
    ],
)
def test_schema_names_are_cleaned(title: str | None, name: str) -> None:
    assert schema_name(title) == name


@given(st.text())
def test_every_schema_name_is_legal_and_stable(title: str) -> None:
    name = schema_name(title)

    assert NAME.match(name)
    assert schema_name(name) == name


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=8,
)


@given(json_values, st.booleans(), st.sampled_from(["", " \n\t"]))
def test_valid_json_is_read_whole(value: Any, ascii_only: bool, around: str) -> None:
    text = around + json.dumps(value, ensure_ascii=ascii_only) + around

    assert parse_json(text, finish_reason="stop") == value


@given(json_values, st.sampled_from(["", "json", "JSON"]), st.sampled_from(["\n", " "]))
def test_a_fence_is_taken_off_any_json(value: Any, language: str, blank: str) -> None:
    text = f"Here it is:\n```{language}{blank}{json.dumps(value)}{blank}```\nDone."

    assert parse_json(text) == value


@given(st.dictionaries(st.text(min_size=1), json_values, min_size=1), st.data())
def test_a_cut_object_is_never_repaired(value: dict[str, Any], data: st.DataObject) -> None:
    whole = json.dumps(value)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]

    with pytest.raises(StructuredOutputError) as caught:
        parse_json(cut, finish_reason="length")

    assert caught.value.reason == "cut"
    assert caught.value.text == cut


def test_backticks_inside_a_string_are_kept() -> None:
    assert parse_json('```json\n{"code": "```py\\nx\\n```"}\n```') == {"code": "```py\nx\n```"}


def test_a_fence_without_json_is_passed_over() -> None:
    assert parse_json('```sh\nls\n```\nand\n```json\n{"n": 1}\n```') == {"n": 1}


def test_a_whole_object_counts_though_the_server_stopped_for_length() -> None:
    assert parse_json('{"a": 1}\n\n\n', finish_reason="length") == {"a": 1}


def test_a_number_may_be_cut_though_it_reads_as_one() -> None:
    with pytest.raises(StructuredOutputError, match="cut by the token limit"):
        parse_json("12", finish_reason="length")


def test_big_integers_keep_every_digit() -> None:
    assert parse_json('{"n": 123456789012345678901234567890}') == {
        "n": 123456789012345678901234567890
    }


@pytest.mark.parametrize(
    ("text", "finish_reason", "refusal", "reason", "sentence"),
    [
        ('{"title":"ab', "length", None, "cut", "cut by the token limit; raise max_tokens"),
        ("", "length", None, "cut", "cut by the token limit"),
        ('{"title":"ab', "abort", None, "cut", "generation ended with 'abort'"),
        ('{"title":"ab', "repetition", None, "cut", "generation ended with 'repetition'"),
        ("", "stop", None, "empty", "is empty"),
        (None, None, None, "empty", "is empty"),
        (" \n", "stop", None, "empty", "is empty"),
        ("", "stop", "I will not.", "refused", "model refused"),
        ('{"a": 1}', "content_filter", None, "refused", "model refused"),
        ("sorry", "stop", None, "invalid", "not valid JSON"),
        ('Here: {"n": 1}', "stop", None, "invalid", "not valid JSON"),
        ('{"n": 1, "m": [1, 2', "stop", None, "invalid", "not valid JSON"),
        ('{"n": 1} {"n": 2}', "stop", None, "invalid", "not valid JSON"),
        ('{"n": NaN}', "stop", None, "invalid", "not valid JSON"),
        ('```json\n{"n": 1', "stop", None, "invalid", "not valid JSON"),
        ('```json\n{"n": 1}', "stop", None, "invalid", "not valid JSON"),
        ("[" * 100_000, "stop", None, "invalid", "not valid JSON"),
        ('{"a": "```json [1]```', "stop", None, "invalid", "not valid JSON"),
    ],
)
def test_an_answer_that_holds_no_json_says_why(
    text: str | None, finish_reason: str | None, refusal: str | None, reason: str, sentence: str
) -> None:
    with pytest.raises(StructuredOutputError, match=sentence) as caught:
        parse_json(text, finish_reason=finish_reason, refusal=refusal)

    assert caught.value.reason == reason
    assert caught.value.text == (refusal or text or "")


def test_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}

    with pytest.raises(ConfigurationError, match="nested too deeply"):
        response_format(schema)
