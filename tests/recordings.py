"""Answers of servers, recorded and synthetic, and what each means, without help of the library.

`tests/fixtures/recordings/vllm-VERSION/index.md` says how real ones were recorded. Their reading
below is the simplest that is right for whole files: no parts, no increments, no dialects but the
three named. `tests/fixtures/synthetic/index.toml` states the meaning of those written by hand.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

FIXTURES = Path(__file__).parent / "fixtures"
SUFFIXES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".sse": "text/event-stream",
}


@dataclass
class Choice:
    """What one choice of an answer says."""

    text: str = ""
    reasoning: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish_reason: str | None = None
    stop_reason: Any = None
    tokens: list[str] = field(default_factory=list)

    @property
    def tool_calls(self) -> list[tuple[str, str]]:
        """Name and arguments of each call."""
        return [(call["name"], call["arguments"]) for _, call in sorted(self.calls.items())]


@dataclass(frozen=True)
class Failure:
    """The error that an answer must become.

    Attributes:
        kind: Name of the class.
        status: The container's own status; `None` where it names none.
        sentence: A part of the message.
    """

    kind: str
    status: int | None
    sentence: str


@dataclass
class Meaning:
    """What a whole answer says."""

    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Recording:
    """One answer of a container, and the request it answers.

    Attributes:
        version: Of vLLM, or `synthetic`.
        name: What was asked.
        status: HTTP status of the container.
        content_type: Of the answer.
        request_body: The request to `POST /invocations`.
        body: The bytes of the answer.
        stated: The meaning of a synthetic answer.
    """

    version: str
    name: str
    status: int
    content_type: str
    request_body: bytes
    body: bytes
    stated: Meaning | None = None

    def __str__(self) -> str:
        return f"{self.version}/{self.name}"

    @cached_property
    def request(self) -> dict[str, Any]:
        """The request as JSON; empty for the few that are not a JSON object."""
        try:
            found = json.loads(self.request_body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> Literal["chat", "text"]:
        """Which client call the request stands for."""
        return "text" if "prompt" in self.request else "chat"

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.content_type in {"text/event-stream", "application/jsonlines"}

    @cached_property
    def meaning(self) -> Meaning:
        """What the uncut file says."""
        if self.stated:
            return self.stated
        if self.is_stream:
            return _read_stream(self.body.decode())
        if self.status != 200:
            return Meaning(failure=_failure(self.body.decode(), self.status))
        return _read_answer(json.loads(self.body))


def all_recordings() -> list[Recording]:
    """Return every recording of every version, and every synthetic answer."""
    folders = sorted((FIXTURES / "recordings").iterdir())
    recorded = [each for folder in folders for each in _recordings_in(folder)]
    return [*recorded, *_synthetic_in(FIXTURES / "synthetic")]


def _recordings_in(folder: Path) -> Iterator[Recording]:
    version = folder.name.removeprefix("vllm-")
    for line in (folder / "index.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 8 and cells[2].isdecimal():
            _, name, status, suffix, content_type, *_ = cells
            yield Recording(
                version=version,
                name=name,
                status=int(status),
                content_type=content_type,
                request_body=(folder / f"{name}.request.json").read_bytes(),
                body=(folder / f"{name}.response.{suffix}").read_bytes(),
            )


def _synthetic_in(folder: Path) -> Iterator[Recording]:
    for name, entry in tomllib.loads((folder / "index.toml").read_text(encoding="utf-8")).items():
        kind, content_type = entry.get("kind", "chat"), SUFFIXES[Path(name).suffix]
        request: dict[str, Any] = {"prompt": "Hi"} if kind == "text" else {"messages": []}
        yield Recording(
            version="synthetic",
            name=name,
            status=entry.get("status", 200),
            content_type=content_type,
            request_body=json.dumps(request).encode(),
            body=(folder / name).read_bytes(),
            stated=_stated(entry),
        )


def _stated(entry: dict[str, Any]) -> Meaning:
    meaning = Meaning()
    if "error" in entry:
        kind, status, sentence = entry["error"]
        meaning.failure = Failure(kind, status or None, sentence)
    ids = entry.get("ids", [])
    calls = [
        {"id": call_id, "name": name, "arguments": arguments}
        for call_id, (name, arguments) in zip(ids, entry.get("calls", []), strict=True)
    ]
    choice = Choice(entry.get("text", ""), calls=dict(enumerate(calls)))
    choice.finish_reason = entry.get("finish_reason")
    choice.stop_reason = entry.get("stop_reason")
    if choice != Choice():
        meaning.choices[0] = choice
    if "tokens" in entry:
        meaning.usage = {"total_tokens": entry["tokens"]}
    return meaning


def _read_stream(text: str) -> Meaning:
    meaning = Meaning()
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    for line in lines:
        if line != "[DONE]":
            _add_chunk(meaning, json.loads(line))
    return meaning


def _read_answer(found: dict[str, Any]) -> Meaning:
    meaning = Meaning()
    for choice in found["choices"]:
        message = choice.pop("message", None)
        if message is not None:
            for index, call in enumerate(message.get("tool_calls") or []):
                call["index"] = index
            choice["delta"] = message
    _add_chunk(meaning, found)
    return meaning


def _add_chunk(meaning: Meaning, chunk: dict[str, Any]) -> None:
    if chunk.get("error"):
        meaning.failure = _failure(json.dumps(chunk), 200)
    meaning.usage = chunk.get("usage") or meaning.usage
    for found in chunk.get("choices") or []:
        choice = meaning.choices.setdefault(found["index"], Choice())
        delta = found.get("delta") or {}
        choice.text += found.get("text") or delta.get("content") or ""
        # 0.12 sends the same text under both names.
        choice.reasoning += delta.get("reasoning") or delta.get("reasoning_content") or ""
        choice.finish_reason = found["finish_reason"] or choice.finish_reason
        choice.stop_reason = found.get("stop_reason") or choice.stop_reason
        choice.tokens += _tokens(found.get("logprobs") or {})
        for call in delta.get("tool_calls") or []:
            _add_call(choice, call)


def _failure(body: str, status: int) -> Failure:
    try:
        found = json.loads(body)
    except ValueError:
        return Failure("ServerError", status, body[:40])
    found = found.get("error", found)
    sentence = found.get("message") or found.get("detail") or ""
    status = found.get("code") or status
    if "maximum context length" in sentence:
        return Failure("ContextOverflowError", status, sentence[:40])
    by_status = {404: "EndpointNotFoundError"}
    kind = by_status.get(status, "InvalidRequestError" if status < 500 else "ServerError")
    return Failure(kind, status, sentence[:40])


def _add_call(choice: Choice, delta: dict[str, Any]) -> None:
    call = choice.calls.setdefault(delta["index"], {"id": None, "name": "", "arguments": ""})
    # 0.8.5 streams forced calls without an id, and repeats a named one's name.
    call["id"] = call["id"] or delta.get("id")
    call["name"] = call["name"] or delta["function"].get("name") or ""
    call["arguments"] += delta["function"].get("arguments") or ""


def _tokens(logprobs: dict[str, Any]) -> list[str]:
    if "tokens" in logprobs:
        return list(logprobs["tokens"])
    return [each["token"] for each in logprobs.get("content") or []]
