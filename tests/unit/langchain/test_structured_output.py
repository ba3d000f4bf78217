"""Schemas of every source, and the parser: strict at the end, lenient before it."""

import dataclasses
import json
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
from langchain_core.exceptions import ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel, Field, field_validator
from pydantic.v1 import BaseModel as BaseModelV1

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from langchain_sagemaker_vllm._chunks import VLLMMessageChunk
from langchain_sagemaker_vllm._structured_output import AnswerParser, schema_format, schema_tool
from sagemaker_vllm import ConfigurationError, StructuredOutputError


class Person(BaseModel):
    """A person."""

    name: str
    age: int

    @field_validator("age")
    @classmethod
    def grown(cls, age: int) -> int:
        """Refuse impossible ages, quoting them as validators do."""
        if age < 0:
            message = f"{age} is no age"
            raise ValueError(message)
        return age


class PersonV1(BaseModelV1):
    """A person, in the older Pydantic."""

    name: str
    age: int


@dataclasses.dataclass
class PersonData:
    """A person, as a dataclass."""

    name: str
    age: int


class PersonDict(TypedDict):
    """A person, as a dict."""

    name: Annotated[str, ..., "The name."]
    age: int
    note: NotRequired[str]


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
VALUE: dict[str, Any] = {"name": "Bo", "age": 12}
SOURCES = [
    (Person, Person(**VALUE)),
    (PersonV1, PersonV1(**VALUE)),
    (PersonData, PersonData(**VALUE)),
    (PersonDict, VALUE),
    (SCHEMA, VALUE),
    (None, VALUE),
]


def answer(text: str, finish_reason: str = "stop", **fields: Any) -> AIMessage:
    """Return an answer as the chat model gives it."""
    metadata = {"finish_reason": finish_reason, "model_provider": "sagemaker_vllm"}
    return AIMessage(text, response_metadata=metadata, **fields)


def called(args: Any, finish_reason: str = "tool_calls") -> AIMessage:
    """Return an answer that calls the tool `Person`."""
    if isinstance(args, dict):
        return answer("", finish_reason, tool_calls=[{"name": "Person", "args": args, "id": "a"}])
    invalid = {"name": "Person", "args": args, "id": "a", "error": None}
    return answer("", finish_reason, invalid_tool_calls=[invalid])


def streamed(parser: AnswerParser, *messages: BaseMessage) -> list[Any]:
    """Return what a stream of messages gives."""
    step: Runnable[BaseMessage, Any] = parser.as_runnable(include_raw=False)
    return list(step.transform(iter(messages)))


def pieces(*texts: str, finish_reason: str = "stop") -> list[VLLMMessageChunk]:
    """Return a streamed answer."""
    end = VLLMMessageChunk(
        content="", response_metadata={"finish_reason": finish_reason}, chunk_position="last"
    )
    return [*(VLLMMessageChunk(content=text) for text in texts), end]


@pytest.mark.parametrize("source", [Person, PersonV1, PersonData, PersonDict, SCHEMA])
def test_every_source_gives_a_response_format(source: Any) -> None:
    made = schema_format(source)["json_schema"]

    assert made["name"] in ("Person", "PersonV1", "PersonData", "PersonDict", "response")
    assert made["schema"]["properties"]["age"]["type"] == "integer"
    assert made["schema"]["required"] == ["name", "age"]
    assert "strict" not in made


@pytest.mark.parametrize("kept", [{}, {"json_schema": {}}, {"json_schema": "object"}])
def test_a_ready_format_without_a_schema_is_sent_as_it_is(kept: dict[str, Any]) -> None:
    ready = {"type": "json_object", **kept}
    model = ChatSageMakerVLLM(endpoint_name="e")

    chain: Any = model.with_structured_output(ready)

    bound = chain.first.kwargs
    format_ = bound["response_format"]
    body, _ = model._get_request_payload([HumanMessage("a")], response_format=format_)
    assert body["response_format"] == ready
    assert bound["ls_structured_output_format"]["schema"]


def test_a_typed_dicts_annotations_are_descriptions_and_optional_keys() -> None:
    properties = schema_format(PersonDict)["json_schema"]["schema"]["properties"]

    assert properties["name"]["description"] == "The name."
    assert properties["note"]["type"] == "string"


class Chain(TypedDict):
    """A TypedDict that holds itself."""

    rest: "list[Chain]"


def test_a_typed_dict_that_holds_itself_is_refused_with_a_cure() -> None:
    with pytest.raises(ConfigurationError, match="use a Pydantic class"):
        schema_format(Chain)


def test_the_tool_of_a_schema_has_its_name_and_description() -> None:
    assert schema_tool(schema_format(Person, strict=True)) == {
        "type": "function",
        "function": {
            "name": "Person",
            "description": "A person.",
            "parameters": Person.model_json_schema(),
            "strict": True,
        },
    }


def test_the_tool_of_a_bare_schema_has_only_what_there_is() -> None:
    assert schema_tool(schema_format(SCHEMA))["function"] == {
        "name": "response",
        "parameters": SCHEMA,
    }


@pytest.mark.parametrize(("source", "value"), SOURCES)
def test_an_answer_becomes_an_instance_of_its_schema(source: Any, value: Any) -> None:
    assert AnswerParser(source).parse(answer(json.dumps(VALUE))) == value


@pytest.mark.parametrize(("source", "value"), SOURCES)
def test_arguments_become_an_instance_of_their_schema(source: Any, value: Any) -> None:
    assert AnswerParser(source, tool_name="Person").parse(called(VALUE)) == value


def test_the_first_call_of_the_tool_is_the_answer() -> None:
    calls = [
        {"name": "Other", "args": {}, "id": "a"},
        {"name": "Person", "args": VALUE, "id": "b"},
        {"name": "Person", "args": {}, "id": "c"},
    ]

    assert AnswerParser(Person, tool_name="Person").parse(answer("", tool_calls=calls)) == Person(
        **VALUE
    )


@pytest.mark.parametrize(
    ("message", "tool_name", "reason"),
    [
        (answer('{"name": "B', "length"), None, "cut"),
        (answer("", "length"), None, "cut"),
        (answer(""), None, "empty"),
        (answer("sorry"), None, "invalid"),
        (answer('{"name": "Bo"}'), None, "invalid"),
        (answer('{"name": "Bo", "age": "old"}'), None, "invalid"),
        (answer("[1]"), None, "invalid"),
        (called('{"name": "B', "length"), "Person", "cut"),
        (called("468.424"), "Person", "invalid"),
        (called({"name": "Bo"}), "Person", "invalid"),
        (answer("", "stop"), "Person", "empty"),
        (answer("", "length"), "Person", "cut"),
        (AIMessageChunk(content=""), "Person", "empty"),
    ],
)
def test_a_bad_answer_says_why_and_keeps_the_message(
    message: BaseMessage, tool_name: str | None, reason: str
) -> None:
    with pytest.raises(StructuredOutputError) as caught:
        AnswerParser(Person, tool_name=tool_name).parse(message)

    error: Any = caught.value
    assert error.reason == reason
    assert error.raw_message is message
    assert issubclass(type(error), OutputParserException)


@pytest.mark.parametrize(
    "message",
    [
        answer("", additional_kwargs={"refusal": "I will not."}),
        answer("", "content_filter"),
    ],
)
def test_a_refusal_is_langchains_refusal(message: AIMessage) -> None:
    with pytest.raises(ModelRefusalError) as caught:
        AnswerParser(Person).parse(message)

    assert caught.value.raw_message is message


@pytest.mark.parametrize(
    ("source", "place"), [(Person, "age"), (PersonV1, "age"), (PersonData, "age")]
)
def test_a_problem_names_its_place_and_never_quotes_the_answer(source: Any, place: str) -> None:
    with pytest.raises(StructuredOutputError, match=place) as caught:
        AnswerParser(source).parse(answer('{"name": "Bo", "age": "hidden"}'))

    assert "hidden" not in str(caught.value)
    assert "hidden" in (caught.value.text or "")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text",
    ["```json\n{}\n```", "Here it is:\n```json\n{}\n```\nBye.", "```\n{}\n```"],
)
def test_a_fence_is_taken_off(text: str) -> None:
    assert AnswerParser(Person).parse(answer(text.format(json.dumps(VALUE)))) == Person(**VALUE)


def test_a_call_of_another_tool_is_no_answer() -> None:
    with pytest.raises(StructuredOutputError, match="use include_raw=True"):
        AnswerParser(Person).parse(called(VALUE))


def test_include_raw_returns_the_message_and_the_value() -> None:
    message = answer(json.dumps(VALUE))

    assert AnswerParser(Person).parse_raw(message) == {
        "raw": message,
        "parsed": Person(**VALUE),
        "parsing_error": None,
    }


def test_include_raw_returns_the_error() -> None:
    message = answer("sorry")

    found = AnswerParser(Person).parse_raw(message)

    assert (found["raw"], found["parsed"]) == (message, None)
    assert found["parsing_error"].reason == "invalid"


def test_include_raw_returns_calls_without_an_error() -> None:
    message = called(VALUE)

    assert AnswerParser(Person).parse_raw(message) == {
        "raw": message,
        "parsed": None,
        "parsing_error": None,
    }


def test_a_stream_of_a_dict_grows() -> None:
    values = streamed(
        AnswerParser(SCHEMA),
        *pieces(
            "{", '"tags"', ':["a","b', '"],"n": 1', "2, ", '"m": 1', ".5,", '"sub":{"x":', "1}}"
        ),
    )

    assert values == [
        {"tags": ["a", "b"]},
        {"tags": ["a", "b"], "n": 12},
        {"tags": ["a", "b"], "n": 12, "m": 1.5},
        {"tags": ["a", "b"], "n": 12, "m": 1.5, "sub": {}},
        {"tags": ["a", "b"], "n": 12, "m": 1.5, "sub": {"x": 1}},
    ]


def test_a_stream_of_a_class_shows_only_valid_instances() -> None:
    values = streamed(AnswerParser(Person), *pieces('{"na', 'me": "B', 'o", "age"', ": 12", "}"))

    assert values == [Person(**VALUE)]


def test_a_stream_of_arguments_grows() -> None:
    deltas = [
        VLLMMessageChunk(
            content="", tool_call_chunks=[{"index": at, "args": args, "id": name, "name": name}]
        )
        for at, args, name in [(0, '{"name": "B', "Person"), (1, "{", "Other"), (0, 'o", ', None)]
    ]
    end = VLLMMessageChunk(
        content="",
        tool_call_chunks=[{"index": 0, "args": '"age": 12}', "id": None, "name": None}],
        response_metadata={"finish_reason": "tool_calls"},
        chunk_position="last",
    )

    values = streamed(AnswerParser(SCHEMA, tool_name="Person"), *deltas, end)

    assert values == [{"name": "B"}, {"name": "Bo"}, VALUE]


def test_a_stream_of_a_fenced_answer_ends_with_the_answer() -> None:
    values = streamed(AnswerParser(Person), *pieces("```json\n", json.dumps(VALUE), "\n```"))

    assert values == [Person(**VALUE)]


@pytest.mark.parametrize(
    ("texts", "finish_reason", "reason"),
    [
        (['{"name": "Bo", ', '"ag'], "length", "cut"),
        (["sor", "ry"], "stop", "invalid"),
        ([""], "stop", "empty"),
        (['{"name": "Bo"}'], "stop", "invalid"),
    ],
)
def test_a_bad_stream_raises_at_its_end(texts: list[str], finish_reason: str, reason: str) -> None:
    with pytest.raises(StructuredOutputError) as caught:
        streamed(AnswerParser(Person), *pieces(*texts, finish_reason=finish_reason))

    assert caught.value.reason == reason


async def test_an_asynchronous_stream_gives_the_same() -> None:
    async def chunks() -> Any:
        for each in pieces('{"name": "B', 'o", "age": 12}'):
            yield each

    step = AnswerParser(SCHEMA).as_runnable(include_raw=False)

    assert [value async for value in step.atransform(chunks())] == [{"name": "B"}, VALUE]


def test_a_whole_message_in_a_stream_is_one_value() -> None:
    assert streamed(AnswerParser(Person), answer(json.dumps(VALUE))) == [Person(**VALUE)]


def test_an_empty_stream_gives_nothing() -> None:
    assert streamed(AnswerParser(Person)) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "json_scheme"}, "Did you mean 'json_schema'"),
        ({"method": "xml"}, "method='xml' must be one of json_schema, function_calling, json_mode"),
        ({"schema": None}, "schema is missing: method='json_schema' needs one"),
        ({"schema": None, "method": "function_calling"}, "needs one"),
        ({"schema": "Person"}, "schema is a str; pass"),
        ({"schema": [Person], "include_raw": True}, "schema is a list; pass"),
        ({"schema": {"colour": "red"}}, "gives no JSON schema"),
        ({"schema": int}, "gives no JSON schema"),
        ({"method": "json_mode", "strict": True}, "strict=True has no meaning"),
        ({"tools": [print], "method": "json_mode"}, "tools= works with method='json_schema' only"),
        (
            {"schema": {"name": "P", "schema": SCHEMA, "strict": True}, "strict": False},
            "strict=False conflicts",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format is set by"),
        ({"tool_choice": "f", "method": "function_calling"}, "tool_choice is set by"),
        ({"include_raw": "yes"}, "include_raw='yes' must be True or False"),
    ],
)
def test_wrong_arguments_are_refused_before_a_request(
    arguments: dict[str, Any], sentence: str
) -> None:
    model = ChatSageMakerVLLM(endpoint_name="e")

    with pytest.raises(ConfigurationError, match=sentence):
        model.with_structured_output(**{"schema": Person, **arguments})


class Described(BaseModel):
    """A model with a described field and a default."""

    limit: int = Field(10, description="How many.")
    mode: str | None = None


def test_defaults_stay_optional_whatever_strict_says() -> None:
    for strict in (None, True, False):
        schema = schema_format(Described, strict=strict)["json_schema"]["schema"]
        assert "required" not in schema
        assert schema["properties"]["limit"]["default"] == 10
