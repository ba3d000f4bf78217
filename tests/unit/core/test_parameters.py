"""vLLM's parameters: sorted, merged, checked."""

import math
from typing import Any

import pytest

from sagemaker_vllm import ConfigurationError, InvocationOptions, merge_parameters, split_keywords
from sagemaker_vllm._parameters import check_parameters


@pytest.mark.parametrize(
    ("layers", "merged"),
    [
        ([{"temperature": 0.5}, {"temperature": None}], {"temperature": 0.5}),
        ([{"temperature": 0.5}, {"temperature": 0}], {"temperature": 0}),
        ([{"max_tokens": 50}, {"max_completion_tokens": 20}], {"max_completion_tokens": 20}),
        ([{"max_completion_tokens": 9}, {"max_tokens": 50}], {"max_tokens": 50}),
        ([{"max_tokens": 50}, {"max_tokens": 0}], {}),
        ([{"max_tokens": 0}], {}),
        ([{"max_tokens": 0, "echo": True}], {"max_tokens": 0, "echo": True}),
        ([{"stop": ["X"]}, {"stop": None}], {"stop": ["X"]}),
        ([{"stop": ["X"]}, {"stop": []}], {}),
        ([{"stop": ["X"]}, {"stop": "Y"}], {"stop": ["Y"]}),
        ([{"stop": ["X"]}, {"stop": ""}], {}),
        ([{"stop": ("X", "Y")}], {"stop": ["X", "Y"]}),
        ([{"extra_body": {"a": 1}, "top_k": 2}, {"extra_body": {"b": 2}}], {"a": 1, "top_k": 2, "b": 2}),
        ([{"top_k": 1, "extra_body": {"top_k": 2}}], {"top_k": 2}),
        ([{"extra_body": None}], {}),
        ([], {}),
    ],
)  # fmt: skip
def test_later_layers_win(layers: list[dict[str, Any]], merged: dict[str, Any]) -> None:
    assert merge_parameters(*layers) == merged


def test_merging_changes_no_argument() -> None:
    layer = {"stop": ("X",), "extra_body": {"a": 1}, "max_tokens": 0}

    merge_parameters(layer, {"max_tokens": 5})

    assert layer == {"stop": ("X",), "extra_body": {"a": 1}, "max_tokens": 0}


def test_two_limits_in_one_layer_are_one() -> None:
    assert merge_parameters({"max_tokens": 5, "max_completion_tokens": 7}) == {
        "max_completion_tokens": 7
    }


@pytest.mark.parametrize(
    ("kind", "name", "value", "problem"),
    [
        ("chat", "temperature", "hot", "must be a whole number or a number, not str"),
        ("chat", "temperature", -1, "at least 0"),
        ("chat", "temperature", math.inf, "finite"),
        ("chat", "temperature", math.nan, "finite"),
        ("chat", "temperature", True, "not bool"),
        ("chat", "top_p", 0, "more than 0"),
        ("chat", "top_p", 1.1, "at most 1"),
        ("chat", "seed", 2**70, "at most"),
        ("chat", "n", 0, "at least 1"),
        ("chat", "n", 1.0, "not float"),
        ("chat", "logprobs", 3, "must be True or False, not int"),
        ("text", "logprobs", True, "not bool"),
        ("chat", "stop", ["a", ""], "not empty"),
        ("chat", "stop", [1], "not empty"),
        ("chat", "stop", {"a"}, "not set"),
        ("chat", "chat_template_kwargs", "x", "must be a mapping, not str"),
        ("chat", "stop_token_ids", 5, "must be a list, not int"),
        ("chat", "truncation_side", "middle", "one of left, right"),
        ("chat", "repetition_penalty", 0, "more than 0"),
    ],
)
def test_wrong_value_names_parameter_value_and_cure(
    kind: Any, name: str, value: Any, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        check_parameters({name: value}, kind=kind)

    assert f"{name}=" in caught.value.message


def test_long_value_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_parameters({"seed": "secret " * 20}, kind="chat")

    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("chat", {"temperature": 0, "top_k": -1, "logprobs": True, "top_logprobs": 5, "stop": "x"}),
        ("chat", {"temperature": 1.9, "tool_choice": {"type": "function"}, "seed": -1}),
        ("chat", {"news": object()}),
        ("text", {"logprobs": 3, "echo": True, "max_tokens": 0, "suffix": "x"}),
    ],
)
def test_right_and_unknown_values_pass(kind: Any, parameters: dict[str, Any]) -> None:
    check_parameters(parameters, kind=kind)


def test_keywords_are_sorted_by_where_they_belong() -> None:
    found = split_keywords(
        {
            "model": "m",
            "target_variant": "b",
            "top_k": 5,
            "extra_body": {"a": 1},
            "mine": 1,
        },
        kind="chat",
        extra={"mine"},
    )

    assert found.model == "m"
    assert found.options == InvocationOptions(target_variant="b")
    assert found.parameters == {"top_k": 5, "extra_body": {"a": 1}}


@pytest.mark.parametrize(
    ("keyword", "nearest"),
    [
        ("temprature", "'temperature'"),
        ("target_varient", "'target_variant'"),
        ("guided_json", None),
        ("xyzzy", None),
    ],
)
def test_unknown_keyword_names_the_nearest(keyword: str, nearest: str | None) -> None:
    with pytest.raises(ConfigurationError, match=keyword) as caught:
        split_keywords({keyword: 1}, kind="chat")

    assert (f"Did you mean {nearest}?" in caught.value.message) is (nearest is not None)
    assert "extra_body" in caught.value.message


def test_chat_only_parameter_is_unknown_for_text() -> None:
    with pytest.raises(ConfigurationError, match="chat_template_kwargs"):
        split_keywords({"chat_template_kwargs": {}}, kind="text")
