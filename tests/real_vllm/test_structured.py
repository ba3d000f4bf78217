"""Schemas with a real vLLM: what both frameworks make of a class is enforced token by token."""

import json
from datetime import date
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import StructuredOutputError
from tests.faces import FACES, Face
from tests.real_vllm.conftest import Ask, Endpoint
from tests.real_vllm.material import user

QUESTION = "Invent one, as JSON."
Short = Annotated[str, Field(max_length=8, pattern="^[a-z]+$")]
Digit = Annotated[int, Field(ge=0, le=9)]
T = TypeVar("T")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Plain(Closed):
    """A person."""

    name: Annotated[str, Field(max_length=8)]
    age: Digit
    alive: bool


class Enumerated(Closed):
    colour: Colour
    size: Literal["small", "large"]
    kind: Literal["fixed"]


class Nested(Closed):
    person: Plain
    colour: Colour


class Listed(Closed):
    digits: Annotated[list[Digit], Field(min_length=2, max_length=3)]
    people: Annotated[list[Enumerated], Field(min_length=1, max_length=1)]


class Optionals(Closed):
    must: Digit | None
    may: Digit | None = None


class Cat(Closed):
    kind: Literal["cat"]
    lives: Digit


class Dog(Closed):
    kind: Literal["dog"]
    barks: bool


class United(Closed):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    value: Digit | bool


class Tree(Closed):
    name: Literal["leaf", "twig"]
    child: "Tree | None"


class Patterned(Closed):
    code: Annotated[str, Field(pattern="^[A-Z]{2}-[0-9]{3}$")]
    born: date


class Mapped(Closed):
    counts: Annotated[dict[Short, Digit], Field(min_length=1, max_length=2)]


class Paired(Closed):
    pair: tuple[Digit, bool]


class Box(Closed, Generic[T]):
    content: T


class Aliased(Closed):
    first: Digit = Field(alias="firstDigit")
    second: Digit = 3


EXAMPLES: list[BaseModel] = [
    Plain(name="Ann", age=3, alive=True),
    Enumerated(colour=Colour.RED, size="small", kind="fixed"),
    Nested(person=Plain(name="Ann", age=3, alive=True), colour=Colour.BLUE),
    Listed(digits=[1, 2], people=[Enumerated(colour=Colour.RED, size="large", kind="fixed")]),
    Optionals(must=None, may=4),
    United(pet=Dog(kind="dog", barks=True), value=7),
    Tree(name="twig", child=Tree(name="leaf", child=None)),
    Patterned(code="AB-123", born=date(2020, 1, 31)),
    Mapped(counts={"apples": 3}),
    Paired(pair=(1, True)),
    Box[Digit](content=5),
    Aliased(firstDigit=1, second=2),
]
# Every kind in four of the eight ways; `Plain` is asked for in all.
WAYS = [face for face in FACES if face.framework != "core" and face.is_async == face.is_stream]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: type(each).__name__)
def test_every_kind_of_schema_is_followed(
    endpoint: Endpoint, models: Any, way: Face, example: BaseModel
) -> None:
    model = models(way, "chat", endpoint)
    # A model of this size does not always know where to end; so it has something to repeat.
    question = f"Repeat this JSON: {example.model_dump_json(by_alias=True)}"

    found = way.predict(model, type(example), question, temperature=0, max_tokens=160)

    assert type(found) is type(example)


def test_an_object_comes_in_every_face(face: Face, endpoint: Endpoint, models: Any) -> None:
    model = models(face, "chat", endpoint)

    found = face.predict(model, Plain, QUESTION, temperature=0, max_tokens=60)

    assert isinstance(found, Plain)


def test_cut_object_is_an_error_that_keeps_the_text(
    face: Face, endpoint: Endpoint, models: Any
) -> None:
    model = models(face, "chat", endpoint)

    with pytest.raises(StructuredOutputError) as caught:
        face.predict(model, Plain, QUESTION, temperature=0, max_tokens=4)

    assert caught.value.reason == "cut"
    assert (caught.value.text or "").lstrip().startswith("{")


def test_json_mode_gives_an_object(ask: Ask) -> None:
    question = 'Repeat this JSON: {"a": 1}'

    answer = ask(question, max_tokens=40, response_format={"type": "json_object"})

    assert isinstance(json.loads(answer.text), dict)


def test_choice_is_one_of_its_words(ask: Ask) -> None:
    answer = ask("Yes or no?", max_tokens=8, structured_outputs={"choice": ["yes", "no"]})

    assert answer.text in {"yes", "no"}


def test_regex_is_matched(ask: Ask) -> None:
    answer = ask("A date?", max_tokens=20, structured_outputs={"regex": "20[0-9]{2}-0[1-9]"})

    assert answer.text[:2] == "20"
    assert answer.text[4:6] == "-0"


def test_grammar_is_followed(ask: Ask) -> None:
    grammar = 'root ::= "one" | "two " root'

    answer = ask("Count", max_tokens=12, structured_outputs={"grammar": grammar})

    assert set(answer.text.split()) <= {"one", "two"}


@pytest.mark.tools
def test_langchain_can_ask_by_a_tool_call(endpoint: Endpoint) -> None:
    model = ChatSageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=80)
    chain = model.with_structured_output(Plain, method="function_calling", strict=True)

    assert isinstance(chain.invoke([user(QUESTION)]), Plain)


def test_langchain_keeps_the_raw_message(endpoint: Endpoint) -> None:
    model = ChatSageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=80)
    chain = model.with_structured_output(Plain, include_raw=True)

    found = chain.invoke([user(QUESTION)])

    assert isinstance(found, dict)
    assert isinstance(found["parsed"], Plain)
    assert found["parsing_error"] is None
    assert Plain.model_validate_json(found["raw"].text) == found["parsed"]
