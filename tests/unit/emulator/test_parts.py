"""How bytes are cut into parts."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import ConfigurationError
from sagemaker_vllm.emulator import random_parts
from sagemaker_vllm.emulator._parts import as_splitter


@given(st.binary(max_size=500), st.integers(), st.integers(1, 40))
def test_random_parts_put_together_are_the_payload(payload: bytes, seed: int, size: int) -> None:
    parts = list(random_parts(seed, size)(payload))

    assert b"".join(parts) == payload
    assert max(map(len, parts), default=0) <= size


def test_random_parts_are_the_same_for_the_same_seed() -> None:
    payload = bytes(1000)

    assert list(random_parts(5)(payload)) == list(random_parts(5)(payload))
    assert list(random_parts(5)(payload)) != list(random_parts(6)(payload))


def test_random_parts_cut_inside_characters_and_are_sometimes_empty() -> None:
    parts = list(random_parts(1, 5)("日本語".encode() * 50))

    assert b"" in parts
    assert any(part[:1] and 0x80 <= part[0] < 0xC0 for part in parts)


def test_number_of_bytes_cuts_evenly() -> None:
    split = as_splitter(3)

    assert split is not None
    assert list(split(b"abcdefgh")) == [b"abc", b"def", b"gh"]


def test_random_source_is_a_splitter() -> None:
    split = as_splitter(random.Random(1))

    assert split is not None
    assert b"".join(split(b"abc" * 100)) == b"abc" * 100


@pytest.mark.parametrize("part_size", [0, -1, "big", 2.5])
def test_wrong_part_size_is_refused_with_its_value(part_size: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"part_size={part_size!r}"):
        as_splitter(part_size)


def test_random_parts_need_room_for_a_byte() -> None:
    with pytest.raises(ConfigurationError, match="max_size=0"):
        random_parts(1, 0)
