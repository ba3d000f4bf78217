"""vLLM's request parameters: which exist, what they may hold, how layers of them merge (pure).

vLLM answers a chat request that has one field of a wrong type with a sentence about another field
("Either prompt or prompt_embeds must be provided"), so types and ranges are checked before sending.
Source: the request models of vLLM 0.33 (wire facts A2).
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from sagemaker_vllm._config import OPTION_NAMES, InvocationOptions, nearest
from sagemaker_vllm._errors import ConfigurationError

RequestKind = Literal["chat", "text"]


class Rule(NamedTuple):
    """What one parameter may hold."""

    kinds: tuple[type, ...]
    low: float | None = None
    high: float | None = None
    above: float | None = None
    words: tuple[str, ...] = ()

    def problem(self, value: object) -> str | None:
        """Say what `value` must be, or nothing when it may be sent."""
        is_flag = isinstance(value, bool)
        if (is_flag is not (bool in self.kinds) and is_flag) or not isinstance(value, self.kinds):
            names = " or ".join(_NAMES[kind] for kind in self.kinds)
            return f"must be {names}, not {type(value).__name__}"
        if isinstance(value, int | float) and not is_flag:
            return self._range_problem(value)
        if self.words and value not in self.words:
            return f"must be one of {', '.join(self.words)}"
        return None

    def _range_problem(self, value: float) -> str | None:
        if not math.isfinite(value):
            return "must be a finite number"
        if self.low is not None and value < self.low:
            return f"must be at least {self.low:g}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high:g}"
        if self.above is not None and value <= self.above:
            return f"must be more than {self.above:g}"
        return None


_NAMES: dict[type, str] = {
    bool: "True or False",
    dict: "a mapping",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a string",
}
_NUMBER = (int, float)
_FLAG = Rule((bool,))
_WHOLE = Rule((int,))
_TEXT = Rule((str,))
_LIST = Rule((list,))
_MAP = Rule((dict,))
_COUNT = Rule((int,), low=1)
_OFF_OR_COUNT = Rule((int,), low=-1)
_PENALTY = Rule(_NUMBER, low=-2, high=2)
_SEED = Rule((int,), low=-(2**63), high=2**63 - 1)

_SHARED: dict[str, Rule] = {
    "add_special_tokens": _FLAG,
    "allowed_token_ids": _LIST,
    "bad_words": _LIST,
    "cache_salt": _TEXT,
    "ec_transfer_params": _MAP,
    "echo": _FLAG,
    "frequency_penalty": _PENALTY,
    "ignore_eos": _FLAG,
    "include_stop_str_in_output": _FLAG,
    "kv_transfer_params": _MAP,
    "length_penalty": Rule(_NUMBER),
    "logit_bias": _MAP,
    "logprob_token_ids": _LIST,
    # 0 is dropped when layers merge, but for a text completion that only echoes.
    "max_tokens": Rule((int,), low=0),
    "min_p": Rule(_NUMBER, low=0, high=1),
    "min_tokens": Rule((int,), low=0),
    "n": Rule((int,), low=1, high=16384),
    "presence_penalty": _PENALTY,
    "priority": _WHOLE,
    "prompt_logprobs": _OFF_OR_COUNT,
    "repetition_detection": _MAP,
    "repetition_penalty": Rule(_NUMBER, above=0),
    "request_id": _TEXT,
    "response_format": _MAP,
    "return_token_ids": _FLAG,
    "return_token_offsets": _FLAG,
    "return_tokens_as_token_ids": _FLAG,
    "return_weight_versions": _FLAG,
    "routed_experts_prompt_start": Rule((int,), low=0),
    "seed": _SEED,
    "session_id": _TEXT,
    "skip_special_tokens": _FLAG,
    "spaces_between_special_tokens": _FLAG,
    "stop": Rule((str, list)),
    "stop_token_ids": _LIST,
    "stream_interval": _COUNT,
    "structured_outputs": _MAP,
    # vLLM takes at most 2 from 0.26 on, older ones take more: the server decides.
    "temperature": Rule(_NUMBER, low=0),
    "top_k": Rule((int,), low=-1),
    "top_p": Rule(_NUMBER, above=0, high=1),
    "truncate_prompt_tokens": _OFF_OR_COUNT,
    "truncation_side": Rule((str,), words=("left", "right")),
    "use_beam_search": _FLAG,
    "user": _TEXT,
    "vllm_xargs": _MAP,
    "watermarking": _FLAG,
}
CHAT_PARAMETERS: Mapping[str, Rule] = MappingProxyType(
    _SHARED
    | {
        "add_generation_prompt": _FLAG,
        "chat_template": _TEXT,
        "chat_template_kwargs": _MAP,
        "continue_final_message": _FLAG,
        "documents": _LIST,
        "include_reasoning": _FLAG,
        "logprobs": _FLAG,
        "max_completion_tokens": Rule((int,), low=0),
        "media_io_kwargs": _MAP,
        "mm_processor_kwargs": _MAP,
        "parallel_tool_calls": _FLAG,
        "reasoning_effort": _TEXT,
        "return_prompt_text": _FLAG,
        "thinking_token_budget": _OFF_OR_COUNT,
        "tool_choice": Rule((str, dict)),
        "top_logprobs": _OFF_OR_COUNT,
    }
)
"""Parameters of a chat request, but for `messages`, `tools`, `model` and `stream`."""
TEXT_PARAMETERS: Mapping[str, Rule] = MappingProxyType(
    _SHARED | {"logprobs": _OFF_OR_COUNT, "suffix": _TEXT}
)
"""Parameters of a text-completion request, but for `prompt`, `model` and `stream`."""

_PARAMETERS: dict[RequestKind, Mapping[str, Rule]] = {
    "chat": CHAT_PARAMETERS,
    "text": TEXT_PARAMETERS,
}
# Two names for one limit; the safe one for every server is the first (wire facts A2.3).
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKeywords:
    """A call's keywords, sorted by where they belong.

    Attributes:
        model: Another model for this call.
        options: SageMaker's options.
        parameters: vLLM's parameters.
    """

    model: str | None
    options: InvocationOptions
    parameters: dict[str, Any]


def split_keywords(
    keywords: Mapping[str, Any], *, kind: RequestKind, extra: Collection[str] = ()
) -> CallKeywords:
    """Sort a call's keywords into model, SageMaker options and vLLM parameters.

    Args:
        keywords: What the caller gave; `None` means not given.
        kind: `chat` or `text`.
        extra: Further keywords that the caller's framework handles itself; left out.

    Raises:
        ConfigurationError: A keyword is unknown; the error names the nearest known one.
    """
    known = _KEYWORDS[kind]
    options: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    for name, value in keywords.items():
        if name in extra or name == "model":
            continue
        if name not in known:
            message = (
                f"Unknown keyword {name}={_shown(value)}.{nearest(name, known | set(extra))} For a "
                f"parameter that is not listed use extra_body={{{name!r}: ...}}."
            )
            raise ConfigurationError(message)
        (options if name in OPTION_NAMES else parameters)[name] = value
    return CallKeywords(
        model=keywords.get("model"),
        options=InvocationOptions(**options) if options else _NO_OPTIONS,
        parameters=parameters,
    )


_NO_OPTIONS = InvocationOptions()


_KEYWORDS: dict[RequestKind, frozenset[str]] = {
    kind: OPTION_NAMES.union(parameters, {"model", "extra_body"})
    for kind, parameters in _PARAMETERS.items()
}


def merge_parameters(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge layers of parameters; later ones win.

    `None` means unset. Of `max_tokens` and `max_completion_tokens` only the one set last is kept.
    An empty `stop` takes a configured one away; one string becomes a list. An `extra_body` is
    merged into its layer.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        given = {name: value for name, value in layer.items() if value is not None}
        if not given:
            continue
        if more := given.pop("extra_body", None):
            given |= {name: value for name, value in more.items() if value is not None}
        if given.get("max_tokens") or given.get("max_completion_tokens"):
            for name in _LIMITS:
                merged.pop(name, None)
        merged |= given
    if "stop" in merged:
        stop = merged.pop("stop")
        if stop not in ("", [], ()):
            is_one = isinstance(stop, str)
            merged["stop"] = [stop] if is_one else [*stop] if isinstance(stop, tuple) else stop
    if "max_tokens" in merged or "max_completion_tokens" in merged:
        _keep_one_limit(merged)
    return merged


def _keep_one_limit(merged: dict[str, Any]) -> None:
    """Keep one name for the answer's limit; 0 is none, but for a completion that only echoes."""
    set_limits = [name for name in _LIMITS if merged.get(name)]
    for name in _LIMITS:
        if name in merged and name not in set_limits[-1:] and not merged.get("echo"):
            del merged[name]


def check_parameters(parameters: Mapping[str, Any], *, kind: RequestKind) -> None:
    """Check the types and ranges of the parameters that are known; others pass.

    Raises:
        ConfigurationError: It names the parameter, its value and what it must be.
    """
    rules = _PARAMETERS[kind]
    for name, value in parameters.items():
        rule = rules.get(name)
        problem = rule.problem(value) if rule else None
        if problem:
            message = f"{name}={_shown(value)} {problem}."
            raise ConfigurationError(message)
    _check_stop(parameters.get("stop"))


def _check_stop(stop: object) -> None:
    strings = stop if isinstance(stop, list) else [] if stop is None else [stop]
    if not all(isinstance(each, str) and each for each in strings):
        message = f"stop={_shown(stop)} must be one or more strings that are not empty."
        raise ConfigurationError(message)


def _shown(value: object) -> str:
    """Show numbers and words, but not a text or object that could hold a prompt."""
    shown = repr(value)
    return shown if len(shown) <= 60 else f"<{type(value).__name__}>"
