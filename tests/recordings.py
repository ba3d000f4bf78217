"""Recorded answers of real vLLM servers, and what each means, read here without the library.

`tests/fixtures/recordings/vllm-VERSION/index.md` says how they were made. The reading below is the
simplest that is right for whole files: no parts, no increments, no dialects but the three named.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "fixtures" / "recordings"


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


@dataclass
class Meaning:
    """What a whole answer says."""

    choices: dict[int, Choice] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True)
class Recording:
    """One request to `POST /invocations` of a real server, and its answer."""

    version: str
    name: str
    status: int
    content_type: str
    request_body: bytes
    body: bytes

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
        return self.content_type == "text/event-stream"

    @cached_property
    def meaning(self) -> Meaning:
        """What the uncut file says."""
        if self.is_stream:
            return _read_stream(self.body.decode())
        found = json.loads(self.body) if self.content_type == "application/json" else {}
        if self.status != 200:
            error = found.get("error", found)
            return Meaning(error=error if isinstance(error, dict) else {"message": error})
        return _read_answer(found)


def all_recordings() -> list[Recording]:
    """Return every recording of every version."""
    return [each for folder in sorted(FOLDER.iterdir()) for each in _recordings_in(folder)]


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
    meaning.error = chunk.get("error") or meaning.error
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
