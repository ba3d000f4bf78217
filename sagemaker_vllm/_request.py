"""Request bodies: one builder per kind (pure).

Keys go out in the same order always: first what calls share (`model`, `tools`, `messages`), then
the parameters, `stream` last. Requests with a common beginning have common leading bytes.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sagemaker_vllm._errors import ConfigurationError
from sagemaker_vllm._parameters import RequestKind, check_parameters, merge_parameters

ChatRequest = dict[str, Any]
"""Body of a chat call, as wire JSON."""
TextRequest = dict[str, Any]
"""Body of a text completion, as wire JSON."""

DEFAULT_MODEL = "/opt/ml/model"
MAX_BODY = 6_291_456
"""Bytes that InvokeEndpoint takes (botocore's service model)."""
MAX_PROMPTS = 1024
"""Prompts that vLLM takes in one request (`VLLM_MAX_COMPLETION_PROMPTS`)."""
_NEAR_LIMIT = 0.95


def chat_request(
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: str = DEFAULT_MODEL,
) -> ChatRequest:
    """Build the body of a chat call.

    Args:
        messages: Messages as wire JSON.
        tools: Tools as wire JSON; none or an empty list are left out, since vLLM refuses `[]`.
        parameters: vLLM's parameters; `None` values are left out.
        model: What vLLM serves.

    Raises:
        ConfigurationError: No messages, or a parameter of a wrong type or range.
    """
    if not messages:
        message = "messages=[] is empty: a chat needs at least one message."
        raise ConfigurationError(message)
    merged = merge_parameters(parameters or {})
    check_parameters(merged, kind="chat")
    body: ChatRequest = {"model": model}
    if tools:
        body["tools"] = list(tools)
    elif merged.get("tool_choice") not in (None, "none"):
        message = f"tool_choice={merged['tool_choice']!r} needs tools: pass at least one tool."
        raise ConfigurationError(message)
    return body | {"messages": list(messages)} | merged


def text_request(
    prompt: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
    *,
    parameters: Mapping[str, Any] | None = None,
    model: str = DEFAULT_MODEL,
) -> TextRequest:
    """Build the body of a text completion.

    Args:
        prompt: A text, several texts, or token ids in place of a text.
        parameters: vLLM's parameters; `None` values are left out.
        model: What vLLM serves.

    Raises:
        ConfigurationError: No prompt, too many, or a parameter of a wrong type or range.
    """
    if not prompt or (not isinstance(prompt, str) and any(each in ("", [], ()) for each in prompt)):
        message = "prompt is empty: pass a text, or a list of texts none of which is empty."
        raise ConfigurationError(message)
    if count_prompts({"prompt": prompt}) > MAX_PROMPTS:
        message = f"prompt has {len(prompt)} texts; vLLM takes at most {MAX_PROMPTS} in a request."
        raise ConfigurationError(message)
    merged = merge_parameters(parameters or {})
    check_parameters(merged, kind="text")
    return {"model": model, "prompt": prompt if isinstance(prompt, str) else list(prompt)} | merged


def count_prompts(request: Mapping[str, Any]) -> int:
    """Count the prompts of a request; a chat and a list of token ids are one."""
    prompt = request.get("prompt")
    if isinstance(prompt, list | tuple) and not isinstance(prompt[0], int):
        return len(prompt)
    return 1


def expected_choices(request: Mapping[str, Any]) -> int:
    """Count the choices that the request asks for: `index = position * n + sample`."""
    return count_prompts(request) * int(request.get("n") or 1)


def prepare(
    request: Mapping[str, Any],
    *,
    kind: RequestKind,
    model: str,
    stream: bool,
    include_usage: bool = False,
    is_limited: bool = True,
) -> bytes:
    """Complete a request and write it as JSON.

    Args:
        request: A body made by a builder, or by hand.
        kind: `chat` or `text`.
        model: The model when the request names none.
        stream: Whether the answer is to be streamed.
        include_usage: Ask for token counts at the end of the stream.
        is_limited: Warn near the size limit of a direct invocation.

    Raises:
        ConfigurationError: The request lacks `messages` or `prompt`, holds a parameter of a wrong
            type, sets `stream` itself, or cannot be written as JSON.
    """
    needed = "messages" if kind == "chat" else "prompt"
    if not request.get(needed):
        message = f"The request has no {needed}: a {kind} request needs them."
        raise ConfigurationError(message)
    if "stream" in request:
        message = "stream is set by the method: call stream_chat or stream_complete to stream."
        raise ConfigurationError(message)
    check_parameters({k: v for k, v in request.items() if v is not None}, kind=kind)
    body = {"model": request.get("model") or model}
    body |= {name: value for name, value in request.items() if name != "model"}
    if stream:
        body.pop("stream_options", None)
        body["stream"] = True
        if request.get("stream_options") or include_usage:
            options = dict(request.get("stream_options") or {})
            body["stream_options"] = {"include_usage": include_usage} | options
    try:
        written = orjson.dumps(body)
    except TypeError as error:
        message = f"The request cannot be written as JSON: {error}. Use plain JSON values."
        raise ConfigurationError(message) from error
    if is_limited:
        _warn_if_large(body, len(written))
    return written


def _warn_if_large(body: Mapping[str, Any], size: int) -> None:
    """Warn near the service's limit, with the biggest part named."""
    if size < _NEAR_LIMIT * MAX_BODY:
        return
    name, largest = max(_sizes(body), key=lambda found: found[1])
    warnings.warn(
        f"The request has {size:,} bytes; a real-time endpoint takes {MAX_BODY:,}. Its biggest "
        f"part is {name} ({largest:,} bytes): send a smaller image, an image URL, or use "
        "async_inference.",
        stacklevel=5,
    )


def _sizes(body: Mapping[str, Any]) -> list[tuple[str, int]]:
    found = [(name, len(orjson.dumps(value))) for name, value in body.items() if name != "messages"]
    for position, message in enumerate(body.get("messages", [])):
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for at, part in enumerate(parts):
            found.append((f"messages[{position}].content[{at}]", len(orjson.dumps(part))))
    return found
