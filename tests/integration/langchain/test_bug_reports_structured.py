"""Public bug reports about structured output, held against this package."""

import dataclasses
import re
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field
from pydantic.v1 import BaseModel as BaseModelV1

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import ConfigurationError, StructuredOutputError
from sagemaker_vllm.emulator import Reply
from tests.integration.langchain.conftest import StartEmulator, Way

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
UNTITLED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Box(BaseModel, Generic[T]):
    """A generic box."""

    value: T


class Role(StrEnum):
    """A role."""

    A = "a"
    B = "b"


class Sub(BaseModel):
    """A nested model."""

    n: int


class Described(BaseModel):
    """A model with described references."""

    role: Role = Field(Role.A, description="the role")
    sub: Sub = Field(description="the rest")


class Scores(BaseModel):
    """A model with an open map."""

    scores: dict[str, int]


class Extra(BaseModel, extra="allow"):
    """A model that takes more."""

    n: int


class Defaults(BaseModel):
    """A model of defaults."""

    limit: int = 10
    mode: Literal["a", "b"] = "a"
    note: str | None = None


class Growing(BaseModel):
    """A model that comes in pieces."""

    tags: list[str]
    sub: Sub
    req: str


class One(BaseModel):
    """A number."""

    n: int


class Titled(BaseModel):
    """A title."""

    title: str


class OldOne(BaseModelV1):
    """A number, in the older Pydantic."""

    a: int


class NewOne(BaseModel):
    """A number, in the newer Pydantic."""

    a: int


@dataclasses.dataclass
class DataOne:
    """A number, as a dataclass."""

    a: int


@pytest.mark.parametrize(
    "schema", [UNTITLED, {"name": "person", "schema": UNTITLED, "strict": True}]
)
async def test_b33_a_schema_without_a_title(
    way: Way, start_emulator: StartEmulator, schema: dict[str, Any]
) -> None:
    emulator = start_emulator([Reply('{"name": "Bo"}')])

    assert await way.last(ChatSageMakerVLLM().with_structured_output(schema)) == {"name": "Bo"}
    sent = emulator.requests[0].json["response_format"]["json_schema"]
    assert sent["name"] == schema.get("name", "response")
    assert sent["schema"] == UNTITLED


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
async def test_b34_the_name_of_a_generic_model(
    way: Way, start_emulator: StartEmulator, method: Any
) -> None:
    call = {"name": "Box_int", "arguments": '{"value": 3}', "id": "a"}
    emulator = start_emulator(
        [Reply('{"value": 3}') if method == "json_schema" else Reply(tool_calls=[call])]
    )

    value = await way.last(ChatSageMakerVLLM().with_structured_output(Box[int], method=method))

    assert value == Box[int](value=3)
    body = emulator.requests[0].json
    named = (
        body["response_format"]["json_schema"]
        if method == "json_schema"
        else body["tools"][0]["function"]
    )
    assert NAME.fullmatch(named["name"])


@pytest.mark.parametrize("title", ["t" * 100, "Größe der Kiste", "каша"])
async def test_b34_odd_titles(plain: Way, start_emulator: StartEmulator, title: str) -> None:
    emulator = start_emulator([Reply('{"name": "Bo"}')])

    await plain.last(ChatSageMakerVLLM().with_structured_output({**UNTITLED, "title": title}))

    assert NAME.fullmatch(emulator.requests[0].json["response_format"]["json_schema"]["name"])


async def test_b35_described_references(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply('{"role": "b", "sub": {"n": 1}}')])

    value = await way.last(ChatSageMakerVLLM().with_structured_output(Described))

    assert value == Described(role=Role.B, sub=Sub(n=1))
    schema = emulator.requests[0].json["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["role"]["description"] == "the role"
    assert schema["$defs"]["Role"]["enum"] == ["a", "b"]


@pytest.mark.parametrize("strict", [None, True, False])
async def test_b38_open_maps(way: Way, start_emulator: StartEmulator, strict: bool | None) -> None:
    emulator = start_emulator([Reply('{"scores": {"a": 1}}'), Reply('{"n": 1, "m": 2}')])
    model = ChatSageMakerVLLM()

    scores = await way.last(model.with_structured_output(Scores, strict=strict))
    extra = await way.last(model.with_structured_output(Extra, strict=strict))

    assert scores.scores == {"a": 1}
    assert extra.model_extra == {"m": 2}
    schemas = [
        request.json["response_format"]["json_schema"]["schema"] for request in emulator.requests
    ]
    assert schemas[0]["properties"]["scores"]["additionalProperties"] == {"type": "integer"}
    assert schemas[1]["additionalProperties"] is True


CUT = Reply('{"title":"ab', finish_reason="length")
WHOLE = Reply('{"title":"ab"}')


async def test_b41_a_cut_answer(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([CUT])

    with pytest.raises(StructuredOutputError, match="cut by the token limit") as caught:
        await way.last(ChatSageMakerVLLM().with_structured_output(Titled))

    assert (caught.value.reason, caught.value.text) == ("cut", '{"title":"ab')


async def test_b41_a_cut_answer_with_include_raw(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([CUT])

    found = await way.last(ChatSageMakerVLLM().with_structured_output(Titled, include_raw=True))

    assert found["raw"].text == '{"title":"ab'
    assert found["parsed"] is None
    assert "cut by the token limit" in str(found["parsing_error"])


@pytest.mark.parametrize("is_async", [True, False])
async def test_b41_a_cut_answer_in_a_batch(start_emulator: StartEmulator, is_async: bool) -> None:
    start_emulator(lambda request: CUT if request.json["messages"][0]["content"] == "2" else WHOLE)
    model = ChatSageMakerVLLM().with_structured_output(Titled)

    found = (
        await model.abatch(["1", "2", "3"], return_exceptions=True)
        if is_async
        else model.batch(["1", "2", "3"], return_exceptions=True)
    )

    assert found[0] == found[2] == Titled(title="ab")
    assert isinstance(found[1], StructuredOutputError)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ('```json\n{"n": 1}\n```', One(n=1)),
        ('Here it is:\n```json\n{"n": 1}\n```\nThat was it.', One(n=1)),
        ('```json\n{"title": "a ``` b"}\n```', Titled(title="a ``` b")),
    ],
)
async def test_b43_a_fenced_answer(
    way: Way, start_emulator: StartEmulator, content: str, value: BaseModel
) -> None:
    start_emulator([Reply(content)])

    assert await way.last(ChatSageMakerVLLM().with_structured_output(type(value))) == value


PIECES = ["{", '"tags"', ":[", '"a","b', '"],"sub":{"n":', '1},"req":"x"}']


@pytest.mark.parametrize("schema", [Growing, Growing.model_json_schema()])
async def test_b45_half_an_object(
    streamed: Way, start_emulator: StartEmulator, schema: Any
) -> None:
    start_emulator([Reply(chunks=PIECES), Reply("".join(PIECES))])
    model = ChatSageMakerVLLM().with_structured_output(schema)

    values = await streamed.items(model)

    whole = model.invoke("Hi")
    assert values[-1] == whole
    assert type(values[-1]) is type(whole)
    if schema is not Growing:
        assert values == [
            {"tags": []},
            {"tags": ["a", "b"]},
            {"tags": ["a", "b"], "sub": {}},
            whole,
        ]


@pytest.mark.parametrize("content", ["sorry", '{"n": "one"}'])
async def test_b46_include_raw_never_raises(
    way: Way, start_emulator: StartEmulator, content: str
) -> None:
    start_emulator([Reply(content)])

    found = await way.last(ChatSageMakerVLLM().with_structured_output(One, include_raw=True))

    assert isinstance(found["raw"], AIMessage)
    assert found["raw"].text == content
    assert found["raw"].usage_metadata is not None
    assert found["parsed"] is None
    assert isinstance(found["parsing_error"], StructuredOutputError)


@pytest.mark.parametrize("strict", [None, True])
async def test_b51_defaults(way: Way, start_emulator: StartEmulator, strict: bool | None) -> None:
    emulator = start_emulator([Reply("{}")])

    value = await way.last(ChatSageMakerVLLM().with_structured_output(Defaults, strict=strict))

    assert value == Defaults(limit=10, mode="a", note=None)
    schema = emulator.requests[0].json["response_format"]["json_schema"]["schema"]
    assert "required" not in schema
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
@pytest.mark.parametrize("cls", [NewOne, OldOne, DataOne])
async def test_b52_classes_of_every_kind(
    way: Way, start_emulator: StartEmulator, cls: Any, method: Any
) -> None:
    call = {"name": cls.__name__, "arguments": '{"a": 1}', "id": "a"}
    start_emulator(
        [Reply(tool_calls=[call]) if method == "function_calling" else Reply('{"a": 1}')]
    )

    value = await way.last(ChatSageMakerVLLM().with_structured_output(cls, method=method))

    assert type(value) is cls
    assert value.a == 1


def test_b52_a_class_without_a_schema_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="gives no JSON schema"):
        ChatSageMakerVLLM(endpoint_name="e").with_structured_output(int)
