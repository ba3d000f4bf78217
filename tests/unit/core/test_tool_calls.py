"""Tool-call deltas of every server dialect."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm import StreamDecodeError, new_call_id, parse_arguments
from sagemaker_vllm._tool_calls import ToolCallTracker, arguments_text

ABSENT = object()


def delta(
    index: Any = 0, call_id: Any = ABSENT, name: Any = ABSENT, args: Any = ABSENT
) -> dict[str, Any]:
    function = {
        key: value for key, value in (("name", name), ("arguments", args)) if value is not ABSENT
    }
    found = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in found.items() if value is not ABSENT}


def calls_of(*deltas: dict[str, Any]) -> list[tuple[str | None, str, str]]:
    """Fold rewritten deltas as any client would: by index, first id and name, joined arguments."""
    tracker = ToolCallTracker()
    rewritten = [tracker.rewrite(each) for each in deltas] + tracker.missing_ids()
    folded: dict[int, list[Any]] = {}
    for each in rewritten:
        call = folded.setdefault(each["index"], [None, "", ""])
        if "id" in each:
            assert call[0] is None, "an id is given once"
            call[0] = each["id"]
        if "name" in each["function"]:
            assert not call[1], "a name is given once"
            call[1] = each["function"]["name"]
        call[2] += each["function"]["arguments"]
    return [(call[0], call[1], call[2]) for _, call in sorted(folded.items())]


def test_deltas_of_one_call_are_joined() -> None:
    assert calls_of(delta(0, "a", "f", ""), delta(args='{"x":'), delta(args="1}")) == [
        ("a", "f", '{"x":1}')
    ]


def test_interleaved_calls_are_kept_apart() -> None:
    assert calls_of(
        delta(0, "a", "f", ""),
        delta(1, "b", "g", ""),
        delta(0, args='{"x":'),
        delta(1, args='{"y":'),
        delta(0, args="1}"),
        delta(1, args="2}"),
    ) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_calls_that_all_come_with_index_0_are_told_apart_by_id_and_name() -> None:
    assert calls_of(
        delta(0, "a1", "f", ""),
        delta(0, "", args='{"x":1}'),
        delta(0, "b2", "g", ""),
        delta(0, "", args='{"y":2}'),
    ) == [("a1", "f", '{"x":1}'), ("b2", "g", '{"y":2}')]


def test_two_calls_of_one_function_at_index_0_are_told_apart_by_id() -> None:
    assert calls_of(
        delta(0, "a", "f", '{"x":1}'), delta(0, "b", "f", ""), delta(0, args='{"x":2}')
    ) == [("a", "f", '{"x":1}'), ("b", "f", '{"x":2}')]


def test_whole_calls_without_ids_at_index_0_are_told_apart_by_their_arguments() -> None:
    found = calls_of(delta(0, name="f", args='{"x":1}'), delta(0, name="f", args='{"x":2}'))

    assert [call[1:] for call in found] == [("f", '{"x":1}'), ("f", '{"x":2}')]


def test_name_repeated_on_every_delta_is_one_call() -> None:
    pieces = ["{", '"city"', ": ", '"Paris"', "}", "\n", ""]

    found = calls_of(*[delta(0, name="f", args=piece) for piece in pieces])

    assert [call[1:] for call in found] == [("f", '{"city": "Paris"}\n')]


def test_fresh_id_on_every_delta_keeps_the_first() -> None:
    assert calls_of(delta(0, "a", "f", "{"), delta(0, "b", args="}"), delta(0, "c", args="")) == [
        ("a", "f", "{}")
    ]


def test_fresh_id_and_repeated_name_inside_open_arguments_is_one_call() -> None:
    assert calls_of(delta(0, "a", "f", "{"), delta(0, "b", "f", "}")) == [("a", "f", "{}")]


def test_id_that_comes_late_is_the_calls_id() -> None:
    assert calls_of(delta(0, None, "f", "{"), delta(0, "late", None, "}")) == [("late", "f", "{}")]


def test_call_without_id_gets_one_of_letters_and_digits() -> None:
    ((call_id, name, arguments),) = calls_of(delta(0, name="f"), delta(0, args="{}"))

    assert (name, arguments) == ("f", "{}")
    assert call_id is not None
    assert len(call_id) == 9
    assert call_id.isalnum()
    assert call_id.isascii()


def test_missing_index_continues_the_last_call() -> None:
    assert calls_of(delta(ABSENT, "a", "f", ""), delta(ABSENT, args='{"x":1}')) == [
        ("a", "f", '{"x":1}')
    ]


def test_missing_index_is_found_by_id() -> None:
    assert calls_of(
        delta(ABSENT, "a", "f", ""),
        delta(ABSENT, "b", "g", ""),
        delta(ABSENT, "a", args="{}"),
    ) == [("a", "f", "{}"), ("b", "g", "")]


def test_index_as_text_is_the_same_index() -> None:
    assert calls_of(delta("0", "a", "f", ""), delta(0, args='{"x":1}')) == [("a", "f", '{"x":1}')]


@pytest.mark.parametrize("function", [None, {"name": None, "arguments": None}, {}])
def test_null_fields_say_nothing(function: Any) -> None:
    assert calls_of(
        delta(0, "c", "find", None),
        {"index": 0, "id": None, "function": function},
        delta(0, None, None, "{}"),
    ) == [("c", "find", "{}")]


def test_arguments_given_as_an_object_become_its_json() -> None:
    assert calls_of(delta(0, "a", "f", {"x": "é"})) == [("a", "f", '{"x":"é"}')]


@pytest.mark.parametrize("broken", [delta(0, 5), delta(0, "a", 5)])
def test_id_or_name_of_another_type_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(StreamDecodeError, match="not text"):
        calls_of(broken)


@pytest.mark.parametrize("index", [True, -1, 1.5, "x", None, []])
def test_unreadable_index_counts_as_missing(index: Any) -> None:
    assert calls_of(delta(index, "a", "f", "{"), delta(index, args="}")) == [("a", "f", "{}")]


CALLS = st.lists(
    st.tuples(
        st.text("fg", min_size=1, max_size=2),
        st.dictionaries(st.text("xy", max_size=2), st.integers() | st.text(max_size=5), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(CALLS, st.randoms(use_true_random=False), st.booleans())
def test_any_interleaving_gives_the_same_calls(
    calls: list[tuple[str, dict[str, Any]]], random: Any, with_index: bool
) -> None:
    queues = []
    for index, (name, arguments) in enumerate(calls):
        written = json.dumps(arguments)
        at = random.randrange(len(written))
        where = index if with_index else ABSENT
        ids = f"id{index}" if not with_index else ABSENT
        queues.append(
            [
                delta(where, f"id{index}", name, ""),
                delta(where, ids, args=written[:at]),
                delta(where, ids, args=written[at:]),
            ]
        )
    deltas = []
    order = list(queues)
    while order:
        queue = random.choice(order)
        # Calls begin in order, as servers write them.
        queue = next(each for each in order if len(each) == 3) if len(queue) == 3 else queue
        deltas.append(queue.pop(0))
        order = [each for each in order if each]

    assert calls_of(*deltas) == [
        (f"id{index}", name, json.dumps(arguments)) for index, (name, arguments) in enumerate(calls)
    ]


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "index": st.none() | st.integers() | st.text(max_size=2) | st.booleans(),
                "id": st.none() | st.text(max_size=2) | st.integers(),
                "function": st.none()
                | st.fixed_dictionaries(
                    {},
                    optional={
                        "name": st.none() | st.text(max_size=2) | st.integers(),
                        "arguments": st.none() | st.text(max_size=4) | st.integers(),
                    },
                ),
            },
        ),
        max_size=8,
    )
)
def test_any_deltas_are_folded_or_refused(deltas: list[dict[str, Any]]) -> None:
    try:
        calls = calls_of(*deltas)
    except StreamDecodeError:
        return

    assert all(call_id for call_id, _, _ in calls)


@pytest.mark.parametrize(
    ("arguments", "finish_reason", "parsed"),
    [
        ('{"x": 1}', "tool_calls", {"x": 1}),
        ('{"x": 1}\n', "length", {"x": 1}),
        ("", "tool_calls", {}),
        (" \n", None, {}),
        ("", "length", None),
        ("468.424", "tool_calls", None),
        ("[1]", "stop", None),
        ('{"x": ', "length", None),
        ("null", "stop", None),
    ],
)
def test_arguments_are_an_object_or_none(
    arguments: str, finish_reason: str | None, parsed: dict[str, Any] | None
) -> None:
    assert parse_arguments(arguments, finish_reason=finish_reason) == parsed


def test_arguments_keep_every_digit_of_a_whole_number() -> None:
    big = 2**64 + 1

    assert parse_arguments(f'{{"id": {big}}}', finish_reason=None) == {"id": big}


def test_arguments_with_a_number_too_long_to_read_are_none() -> None:
    assert parse_arguments(f'{{"id": {"9" * 5000}}}', finish_reason=None) is None


def test_arguments_text_keeps_the_models_own() -> None:
    assert arguments_text('{"a" :1}') == '{"a" :1}'
    assert arguments_text(None) == ""
    assert arguments_text({"a": 1}) == '{"a":1}'


def test_call_ids_differ() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000
