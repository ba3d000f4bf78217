"""A container's plain answer → the normalised response (pure).

The twin of `_chunks`: after it nothing needs to know which server or version answered.
"""

from typing import Any

import orjson

from sagemaker_vllm._chunks import (
    FINISH_REASONS,
    normalise_logprobs,
    normalise_reasoning,
    normalise_usage,
    require,
)
from sagemaker_vllm._error_table import failed_choice, stream_event_error
from sagemaker_vllm._errors import ServerError
from sagemaker_vllm._parameters import RequestKind
from sagemaker_vllm._tool_calls import arguments_text, new_call_id


def read_response(
    data: bytes, *, kind: RequestKind, endpoint_name: str, expected_choices: int = 1
) -> dict[str, Any]:
    """Read and normalise a plain answer.

    Raises:
        APIError: The answer says that the container failed, though its status was 200.
        ServerError: The answer is not a completion, or lacks choices that the request asked for;
            the raw answer is the error's `body`.
    """
    try:
        response = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _not_a_completion(data, endpoint_name, f"{len(data)} bytes, not JSON") from error
    if isinstance(response, dict):
        failure = stream_event_error(response, endpoint_name=endpoint_name, body=data)
        if failure is not None:
            raise failure
    try:
        for choice in response["choices"]:
            if failure := failed_choice(
                choice.get("finish_reason"), endpoint_name=endpoint_name, body=data
            ):
                raise failure
            _normalise(choice, kind)
        choices = list(response["choices"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        keys = sorted(response) if isinstance(response, dict) else [type(response).__name__]
        raise _not_a_completion(data, endpoint_name, f"it holds: {', '.join(keys)}") from error
    if len(choices) < expected_choices:
        what = f"{len(choices)} of {expected_choices} choices"
        raise _not_a_completion(data, endpoint_name, what)
    return {**response, "choices": choices, "usage": normalise_usage(response.get("usage"))}


def _normalise(choice: dict[str, Any], kind: RequestKind) -> None:
    choice.setdefault("index", 0)
    choice["logprobs"] = normalise_logprobs(choice.get("logprobs"))
    choice.setdefault("stop_reason", None)
    reason = choice.get("finish_reason")
    require(choice["index"], int)
    require(reason, str, type(None))
    choice["finish_reason"] = FINISH_REASONS.get(reason, reason)
    if kind == "text":
        require(choice["text"], str)
        return
    message = choice["message"]
    normalise_reasoning(message)
    message.setdefault("reasoning", None)
    message.setdefault("content", None)
    for name in ("content", "reasoning"):
        require(message[name], str, type(None))
        # No text is `None`, as a stream without text gives it.
        message[name] = message[name] or None
    message["tool_calls"] = [_call(call) for call in message.get("tool_calls") or []]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name, call_id = function["name"], call.get("id") or new_call_id()
    if not isinstance(name, str) or not isinstance(call_id, str):
        raise TypeError
    function = {"name": name, "arguments": arguments_text(function.get("arguments"))}
    return {"id": call_id, "type": "function", "function": function}


def _not_a_completion(data: bytes, endpoint_name: str, what: str) -> ServerError:
    return ServerError(
        f"The container behind endpoint {endpoint_name!r} answered something that is not a "
        f"completion ({what}). Is it vLLM, or LMI with the OpenAI schema?",
        error_code="UnexpectedAnswer",
        body=data,
        endpoint_name=endpoint_name,
        is_retryable=False,
    )
