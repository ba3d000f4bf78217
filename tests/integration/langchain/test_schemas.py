"""Schemas of every kind, kept by a server that follows them, become valid instances."""

from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm.emulator import SyntheticModel
from tests.integration.langchain.conftest import StartEmulator, Way

T = TypeVar("T")


class Tree(BaseModel):
    """A tree, which holds trees."""

    value: int
    children: list["Tree"] = []


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    """A size."""

    SMALL = 1
    LARGE = 2


class Choices(BaseModel):
    """Enums and literals."""

    colour: Colour
    size: Size
    mode: Literal["a", 2]
    nothing: None


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]
    tricks: list[str]


class Pets(BaseModel):
    """Unions, one of them with a discriminator."""

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    age: int | str
    owner: str | None = None


class Page(BaseModel, Generic[T]):
    """A page of items."""

    items: list[T]
    total: int


class Open(BaseModel, extra="allow"):
    """Open maps, and room for more."""

    scores: dict[str, int]
    rest: dict[str, Any]


class Formats(BaseModel):
    """Strings with a format."""

    day: date
    moment: datetime
    key: UUID


class Bounds(BaseModel):
    """Numbers and lists with bounds."""

    percent: int = Field(ge=0, le=100)
    ratio: float = Field(gt=0, lt=1)
    pair: tuple[int, str]
    few: list[int] = Field(min_length=1, max_length=3)
    price: Decimal


class Aliased(BaseModel):
    """Fields under other names, and defaults."""

    from_place: str = Field(alias="from")
    limit: int = 10
    flag: bool = False


KINDS: list[type[BaseModel]] = [
    Tree,
    Choices,
    Pets,
    Page[Tree],
    Page[int],
    Open,
    Formats,
    Bounds,
    Aliased,
]


@pytest.mark.parametrize("strict", [True, None])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_schema_of_every_kind_gives_an_instance(
    way: Way, start_emulator: StartEmulator, kind: type[BaseModel], strict: bool | None
) -> None:
    start_emulator(SyntheticModel())
    model = ChatSageMakerVLLM().with_structured_output(kind, strict=strict)

    assert type(await way.last(model, "Make one of 3 red ones.")) is kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_tool_of_every_schema_gives_an_instance(
    plain: Way, start_emulator: StartEmulator, kind: type[BaseModel]
) -> None:
    start_emulator(SyntheticModel())
    model = ChatSageMakerVLLM().with_structured_output(kind, method="function_calling", strict=True)

    assert type(await plain.last(model, "Make one of 3 red ones.")) is kind


@pytest.mark.parametrize(
    ("constraint", "wanted"),
    [
        ({"choice": ["yes", "no"]}, {"yes", "no"}),
        ({"regex": "(ab){2}"}, {"abab"}),
        ({"grammar": 'root ::= "yes"'}, {"yes"}),
    ],
)
async def test_vllms_own_constraints_are_a_parameter(
    way: Way, start_emulator: StartEmulator, constraint: dict[str, Any], wanted: set[str]
) -> None:
    start_emulator(SyntheticModel())

    message = await way.ask(ChatSageMakerVLLM(), structured_outputs=constraint)

    assert message.text in wanted
