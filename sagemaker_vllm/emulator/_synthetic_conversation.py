"""Reads a chat request: who said what, which images came, what is still to be answered."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sagemaker_vllm.emulator._synthetic_media import describe_media
from sagemaker_vllm.emulator._synthetic_refusal import RefusedError

_TOKEN = re.compile(r" ?[^\W_]{1,12}| ?[^\w\s]{1,3}|_+|\s")
_TOKENS_PER_MESSAGE, _TOKENS_PER_MEDIUM = 4, 64
_TEXT_KEYS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_PART_TYPES = (
    "audio_embeds, audio_url, image_embeds, image_pil, image_url, input_audio, input_image, "
    "input_text, output_text, prompt_embeds, refusal, text, thinking, tool_reference, "
    "video_embeds, video_url"
)
# What the request models of the roles know, besides vLLM's own parts.
_TEXT_MODEL = {"text": "ChatCompletionContentPartTextParam"}
_PART_MODELS = {
    "user": {
        **_TEXT_MODEL,
        "image_url": "ChatCompletionContentPartImageParam",
        "input_audio": "ChatCompletionContentPartInputAudioParam",
        "file": "File",
    },
    "assistant": {**_TEXT_MODEL, "refusal": "ChatCompletionContentPartRefusalParam"},
}


def split_tokens(text: str) -> list[str]:
    """Cut text into word pieces, the tokens of this model; joined they are the text again."""
    return _TOKEN.findall(text)


@dataclass(slots=True)
class Conversation:
    """What a chat request says.

    Attributes:
        question: Text of the user message to be answered.
        results: Name and text of the tool results that came after it.
        called: Names of the tools that were called after it.
        background: All other text, the latest first.
        media: What the images and other media are, in their order.
        prompt_tokens: Length of all of it.
    """

    question: str = ""
    results: list[tuple[str, str]] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    background: list[str] = field(default_factory=list)
    media: list[str] = field(default_factory=list)
    prompt_tokens: int = 0

    @classmethod
    def read(
        cls, messages: Sequence[Mapping[str, Any]], modalities: Collection[str]
    ) -> "Conversation":
        """Read the messages.

        Args:
            messages: Messages of a chat request.
            modalities: The media the model takes; none for a text model.

        Raises:
            RefusedError: vLLM would not take a content part.
        """
        talk, names, last_role = cls(), dict[str, str](), ""
        for message in messages:
            role = message["role"]
            text = "\n".join(talk._read_parts(message, modalities))
            if role == "tool":
                name = names.get(message.get("tool_call_id", ""), message.get("name") or "the tool")
                talk.results.append((name, text))
            elif role == "user" and last_role != "tool":
                talk.background[:0] = [*(result for _, result in talk.results), talk.question]
                talk.question, talk.results, talk.called = text, [], []
            else:
                talk.background.insert(0, text)
            for call in message.get("tool_calls") or ():
                names[call["id"]] = call["function"]["name"]
                talk.called.append(call["function"]["name"])
                text += call["function"]["name"] + call["function"]["arguments"]
            talk.prompt_tokens += _TOKENS_PER_MESSAGE + len(split_tokens(text))
            last_role = role
        talk.prompt_tokens += _TOKENS_PER_MEDIUM * len(talk.media)
        return talk

    def texts(self, *, is_report: bool = True) -> list[str]:
        """Give all text, the most telling first.

        Args:
            is_report: Whether what is written reports the results; else it does what is asked.
        """
        results = [text for _, text in self.results]
        asked = [*results, self.question] if is_report else [self.question, *results]
        return [*asked, *self.media, *self.background]

    def _read_parts(self, message: Mapping[str, Any], modalities: Collection[str]) -> Iterator[str]:
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
            return
        models = _PART_MODELS.get(message["role"], _TEXT_MODEL)
        for index, part in enumerate(content):
            # The request model looks at the first part only.
            kind = _part_type(part, models if index == 0 else None)
            if kind in _TEXT_KEYS:
                yield part[_TEXT_KEYS[kind]]
            elif match := re.match(r"(?:input_)?(image|audio|video)", kind):
                self._add_medium(match[1], part, modalities)

    def _add_medium(
        self, modality: str, part: Mapping[str, Any], modalities: Collection[str]
    ) -> None:
        if not modalities:
            raise RefusedError("<path> is not a multimodal model")
        if modality not in modalities:
            message = f"At most 0 {modality}(s) may be provided in one prompt."
            raise RefusedError(message, modality)
        count = 1 + sum(known.startswith(modality) for known in self.media)
        self.media.append(f"{modality} {count}: {describe_media(modality, part)}")


def _part_type(part: Any, models: Mapping[str, str] | None) -> str:
    """Return a content part's type, told by its keys when it names none."""
    known = _PART_TYPES.split(", ")
    keys = part if isinstance(part, Mapping) else {}
    kind = keys.get("type") or next((key for key in keys if key in known), None)
    is_taken = kind in known or kind in (models or ())
    if kind in _TEXT_KEYS:
        is_taken = isinstance(keys.get(_TEXT_KEYS[kind]), str)
    elif kind == "input_audio":
        is_taken = keys.get(kind, {}).get("format") in ("wav", "mp3")
    if kind is None or (models and not is_taken):
        models = models or _PART_MODELS["user"]
        problems = [problem for model in models.items() for problem in _problems(part, *model)]
        if len(models) == 1:
            problems = [re.sub(r"^0\.\w+", "0", problem) for problem in problems]
        count = len(problems)
        raise RefusedError(
            "\n".join((f"{count} validation errors for ValidatorIterator", *problems))
        )
    if kind not in known:
        message = f"Unsupported chat content part type: {kind!r}. Supported types: {_PART_TYPES}."
        raise RefusedError(message, "type", kind)
    return str(kind)


def _problems(part: Any, kind: str, model: str) -> Iterator[str]:
    """Say as pydantic does why a part is not of a model."""
    where = f"0.{model}"
    if not isinstance(part, Mapping):
        yield _problem(where, "Input should be a valid dictionary", "dict_type", part)
        return
    value = part.get(kind)
    if kind not in part:
        yield _problem(f"{where}.{kind}", "Field required", "missing", part)
    elif kind == "text" and not isinstance(value, str):
        yield _problem(f"{where}.text", "Input should be a valid string", "string_type", value)
    elif kind == "input_audio":
        where_format, sound = f"{where}.input_audio.format", part[kind].get("format")
        yield _problem(where_format, "Input should be 'wav' or 'mp3'", "literal_error", sound)
    if part.get("type") != kind:
        named = part.get("type")
        yield _problem(f"{where}.type", f"Input should be '{kind}'", "literal_error", named)


def _problem(where: str, text: str, code: str, given: Any) -> str:
    shown = repr(given)
    shown = shown if len(shown) <= 50 else f"{shown[:25]}...{shown[-24:]}"
    reason = f"[type={code}, input_value={shown}, input_type={type(given).__name__}]"
    more = f"    For further information visit https://errors.pydantic.dev/2.14/v/{code}"
    return f"{where}\n  {text} {reason}\n{more}"
