"""A script that answers as a vLLM server would, from what the request says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sagemaker_vllm.emulator._rendering import sse
from sagemaker_vllm.emulator._replies import AnyReply, ContainerFault, Reply, StreamReply
from sagemaker_vllm.emulator._requests import RecordedRequest
from sagemaker_vllm.emulator._synthetic_conversation import Conversation, split_tokens
from sagemaker_vllm.emulator._synthetic_generation import (
    Generation,
    chat_choice,
    generate,
    text_choice,
)
from sagemaker_vllm.emulator._synthetic_refusal import RefusedError
from sagemaker_vllm.emulator._synthetic_validation import (
    check_sampling,
    max_tokens,
    read_constraint,
    read_request,
)
from sagemaker_vllm.emulator._synthetic_writing import write_chat, write_reasoning, write_text

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticModel:
    """A made-up model behind a made-up vLLM 0.32 server, for `Emulator(script=SyntheticModel())`.

    It knows nothing, but it reads the request: the same request gets the same answer, and a
    sensible one, so that applications and agents run against it offline.

    - **Errors.** What vLLM refuses is refused in vLLM's words: wrong types, ranges, tool choices,
      content parts, media, constraints, too long prompts.
    - **Tools.** With `tool_choice` `auto` it calls the tools that the last user message speaks of
      (by name, or by words of their names and descriptions) and that were not called since,
      several at once if it speaks of several. `required` and a named tool force a call. Arguments
      follow the tool's schema and are taken from the conversation: numbers, quoted text, names,
      choices; fields that it does not mention are left out where the schema lets them. After the
      results it answers in text.
    - **JSON.** `response_format` and `structured_outputs` (`json`, `json_object`, `choice`,
      `regex`, `grammar`) are kept, filled from the conversation in the same way. So is a schema
      that the prompt quotes, when it asks for JSON. Beside tools on `auto`, JSON is the answer
      when no tool is to be called.
    - **Text.** Else it repeats the last user message, and says which images and other media came,
      with their sizes; of PNG images also the colour of the first pixel. A text completion gets its
      prompt's last words back.
    - **Reasoning.** `chat_template_kwargs: {"enable_thinking": true}` puts some in front.
    - Kept too: `n` and `seed` (other words), `max_tokens` and `stop`, `ignore_eos`, `min_tokens`,
      `logprobs`, `echo`, streaming, usage. A token is a word piece.

    Not played: `prompt_logprobs`, token ids, stop tokens, `structural_tag`, beam search.

    Attributes:
        max_model_len: Tokens of prompt and answer together. Default 32768.
        model: The served model's name, in every answer. Default `/opt/ml/model`.
        vision: Whether images are taken. Default true.
        audio: Whether audio is taken. Default false.
        video: Whether video is taken. Default false. Without any of the three it is a text model.
        tool_calling: Whether the server has a tool parser and automatic tool choice. Default true.
        reasoning: Whether the server has a reasoning parser. Default true.
    """

    max_model_len: int = 32768
    model: str = "/opt/ml/model"
    vision: bool = True
    audio: bool = False
    video: bool = False
    tool_calling: bool = True
    reasoning: bool = True

    def __call__(self, request: RecordedRequest) -> AnyReply:
        """Answer a request as the container would."""
        body: JSON = {}
        try:
            body = self._read(request)
            return (
                self._answer_chat(body) if body["messages"] is not None else self._answer_text(body)
            )
        except RefusedError as error:
            if error.is_late and body.get("stream"):
                return StreamReply(sse(json.dumps(error.body)))
            return ContainerFault(error.status, error.body)

    def _read(self, request: RecordedRequest) -> JSON:
        if "application/json" not in request.headers.get("Content-Type", ""):
            problem = "Unsupported Media Type: Only 'application/json' is allowed"
            raise RefusedError(f"1 validation error:\n  {problem}", kind="Bad Request")
        try:
            body = request.json
        except ValueError as error:
            raise RefusedError(f"JSON decode error: {error}", kind="Bad Request") from None
        return read_request(body)

    def _answer_chat(self, body: JSON) -> Reply:
        self._check_server(body)
        media = {"image": self.vision, "audio": self.audio, "video": self.video}
        modalities = [name for name, is_taken in media.items() if is_taken]
        talk = Conversation.read(body["messages"], modalities)
        tools = json.dumps(body["tools"]) if body.get("tools") else ""
        prompt_tokens = talk.prompt_tokens + len(split_tokens(tools))
        room = self._room(body, [prompt_tokens])
        check_sampling(body)
        constraint = read_constraint(body)
        thinks = self.reasoning and body.get("chat_template_kwargs", {}).get("enable_thinking")
        reasoning = write_reasoning(talk) if thinks else None
        made = [
            generate(body, write_chat(body, talk, constraint, variant), reasoning, room)
            for variant in _variants(body)
        ]
        choices = [chat_choice(body, one) for one in made]
        thought = sum(len(split_tokens(one.reasoning or "")) for one in made)
        details = {"reasoning_tokens": thought}
        usage = _usage(body, prompt_tokens, made) | {"completion_tokens_details": details}
        return Reply(choices=choices, usage=usage, model=self.model)

    def _answer_text(self, body: JSON) -> Reply:
        if body.get("suffix") is not None:
            message = "suffix is only supported for models with FIM completion rendering"
            raise RefusedError(message)
        prompts = _prompts(body["prompt"])
        lengths = [len(split_tokens(prompt)) for prompt in prompts]
        room = self._room(body, lengths)
        check_sampling(body)
        constraint = read_constraint(body)
        made = [
            (prompt, generate(body, write_text(prompt, constraint, variant), None, room))
            for prompt in prompts
            for variant in _variants(body)
        ]
        choices = [text_choice(body, prompt, one) for prompt, one in made]
        usage = _usage(body, sum(lengths), [one for _, one in made])
        return Reply(choices=choices, usage=usage, model=self.model)

    def _check_server(self, body: JSON) -> None:
        """Refuse what the server's flags do not allow."""
        if not body["messages"]:
            raise RefusedError(
                "Cannot apply chat template to an empty conversation. Provide at least one message."
            )
        if "chat_template" in body:
            raise RefusedError(
                "Chat template is passed with request, but --trust-request-chat-template is not "
                "set. Refused request with untrusted chat template."
            )
        if "mm_processor_kwargs" in body:
            raise RefusedError(
                "Per-request mm_processor_kwargs are disabled by default because they can change "
                "multimodal preprocessing resource usage. Start the server with "
                "--trust-request-mm-kwargs only when clients are trusted.",
                "mm_processor_kwargs",
            )
        if "thinking_token_budget" in body and not self.reasoning:
            raise RefusedError(
                "thinking_token_budget is set but reasoning_config is not configured. Please set "
                "--reasoning-parser and/or --reasoning-config to use thinking_token_budget."
            )
        choice = body.get("tool_choice", "auto")
        if self.tool_calling or not body.get("tools") or choice == "none":
            return
        if choice == "auto":
            flags = "--enable-auto-tool-choice and --tool-call-parser"
            raise RefusedError(f'"auto" tool choice requires {flags} to be set')
        name = f'"{choice}"'
        if isinstance(choice, dict):
            name = f'function "{choice["function"]["name"]}"'
        raise RefusedError(f"tool_choice={name} requires --tool-call-parser to be set")

    def _room(self, body: JSON, prompt_lengths: Sequence[int]) -> int:
        """Return how many tokens the context has left."""
        limit, longest = self.max_model_len, max(prompt_lengths)
        if longest > limit:
            raise RefusedError(
                f"This model's maximum context length is {limit} tokens. However, your prompt "
                f"contains at least {limit + 1} input tokens, which exceeds this limit even "
                "without any output tokens. Please reduce the length of the input prompt.",
                "input_tokens",
                limit + 1,
            )
        if (wanted := max_tokens(body) or 0) > limit:
            name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
            raise RefusedError(
                f"{name}={wanted} cannot be greater than max_model_len={limit}. Please request "
                "fewer output tokens.",
                name,
                wanted,
            )
        if longest == limit:
            raise RefusedError("max_tokens must be at least 1, got 0.", "max_tokens", 0)
        return limit - longest


def _prompts(prompt: Any) -> list[str]:
    """Return the prompts as text; token ids, which mean nothing here, as their numbers."""
    is_one = isinstance(prompt, str) or isinstance(next(iter(prompt), None), int)
    prompts = [prompt] if is_one else prompt
    if not prompts:
        raise RefusedError("You must pass at least one prompt")
    if "" in prompts:
        raise RefusedError("The decoder prompt cannot be empty")
    return [text if isinstance(text, str) else " ".join(map(str, text)) for text in prompts]


def _variants(body: JSON) -> range:
    """Number the samples, from one that depends on the seed."""
    seed = abs(body.get("seed", 0))
    return range(seed, seed + body.get("n", 1))


def _usage(body: JSON, prompt_tokens: int, made: Sequence[Generation]) -> JSON:
    completion_tokens = sum(one.count for one in made)
    plain = {"prompt_tokens_details": None, "completion_tokens_details": None}
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
        **({} if body.get("stream") else plain),
    }
