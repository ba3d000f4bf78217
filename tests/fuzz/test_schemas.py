"""Schemas of any content: a `response_format` or a `ConfigurationError`; answers: read or refused."""

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import (
    ConfigurationError,
    StructuredOutputError,
    parse_json,
    response_format,
)
from tests.fuzz.strategies import anything, nested

WORDS = st.sampled_from(
    [
        "type", "title", "properties", "required", "$ref", "$defs", "anyOf", "enum", "items",
        "json_schema", "schema", "name", "strict", "description", "function", "parameters",
        "additionalProperties", "format",
    ]
)  # fmt: skip
NAMES = st.sampled_from(["object", "string", "json_schema", "function", "json_object", "text"])
schemas = st.dictionaries(WORDS, st.recursive(
    anything | NAMES, lambda inner: st.dictionaries(WORDS, inner, max_size=4), max_leaves=8
), max_size=5)  # fmt: skip


@given(schemas, st.none() | st.text(max_size=70), st.none() | st.booleans())
@example({"type": ["object", "null"], "properties": {}}, None, None)
def test_any_schema_is_wrapped_or_refused(
    schema: dict[str, Any], name: str | None, strict: bool | None
) -> None:
    before = copy.deepcopy(schema)

    with suppress(ConfigurationError):
        made = response_format(schema, name=name, strict=strict)
        assert isinstance(made["type"], str)
        json.dumps(made)

    assert schema == before


@given(schemas)
def test_langchain_takes_any_schema_or_refuses_it(schema: dict[str, Any]) -> None:
    model = ChatSageMakerVLLM(endpoint_name="fuzzed", region_name="us-east-1")

    with suppress(ConfigurationError):
        assert model.with_structured_output(schema).get_name()


@pytest.mark.parametrize("depth", [50, 1_000, 100_000])
def test_deep_schema_is_wrapped_or_refused(depth: int) -> None:
    schema = {"title": "Deep", "type": "object", "properties": {"a": nested(depth)}}

    with suppress(ConfigurationError):
        assert response_format(schema)["json_schema"]["name"] == "Deep"


FINISH_REASONS = st.sampled_from([None, "stop", "length", "tool_calls", "abort", "content_filter"])


@given(anything, st.data(), FINISH_REASONS)
def test_any_answer_is_read_or_refused_with_its_text(
    value: Any, data: st.DataObject, finish_reason: str | None
) -> None:
    text = json.dumps(value)
    broken = text[: data.draw(st.integers(0, len(text)))] + data.draw(st.text(max_size=3))

    try:
        found = parse_json(broken, finish_reason=finish_reason)
    except StructuredOutputError as error:
        kept = error.text
    else:
        # What is read is what is there, never a repair.
        kept = broken
        assert json.loads(broken.strip().strip("`").removeprefix("json")) == found

    assert kept == broken


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 1_000_000, "```json\n" * 200_000])
def test_endless_answer_is_refused(text: str) -> None:
    with pytest.raises(StructuredOutputError) as caught:
        parse_json(text, finish_reason="stop")

    assert caught.value.text == text
