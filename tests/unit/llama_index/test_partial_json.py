"""Growing JSON: nothing is made up, and what is read only grows."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_index_sagemaker_vllm._partial_json import read_partial_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("no object", None),
        ("[1", None),
        ("{", {}),
        ('{"tags"', {}),
        ('{"tags":["a","b', {"tags": ["a", "b"]}),
        ('{"sub":{"n":', {"sub": {}}),
        ('{"n":1', {}),
        ('{"n":-1.', {}),
        ('{"n":12}', {"n": 12}),
        ('{"m":[1, 2', {"m": [1]}),
        ('{"on":tr', {}),
        ('{"a":"x\\', {"a": "x"}),
        ('Here: ```json\n{"a":1}\n```', {"a": 1}),
        ('{"a" "b"', None),
    ],
)
def test_object_is_read_as_far_as_it_goes(text: str, found: Any) -> None:
    assert read_partial_object(text) == found


def grows(before: Any, after: Any) -> bool:
    """Whether `after` is `before` with more in it."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and grows(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(grows, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return bool(before == after)


@given(OBJECTS)
def test_every_prefix_reads_as_less_of_the_whole(whole: dict[str, Any]) -> None:
    text = json.dumps(whole, ensure_ascii=False)

    seen = [read_partial_object(text[:end]) or {} for end in range(len(text) + 1)]

    assert all(grows(before, after) for before, after in itertools.pairwise(seen))
    assert seen[-1] == whole
