"""Finds values in a conversation: numbers, quoted text, names, listed choices."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

_NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)"
_QUOTED = r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)"
_NAME = r"((?!What|Who|Where|When|Which|How|Th|It\b|He\b|She|We\b|You|JSON)[A-ZÀ-Þ][\w'-]+"
_NAME += r"(?: [A-ZÀ-Þ][\w'-]*)*(?:, [A-Z]{2}\b)?)"
# A capital letter that starts a sentence makes a name only of a subject.
_NAMES = rf"(?:(?<=[\w,;)] )|(?<=\()){_NAME}|{_NAME} (?:is|was|has|and|lives)\b"
_TOLD = r"\s*(?:\bis\b|\bnamed\b|\bcalled\b|=|:)\s*[\"'“`]?"
_TOLD += r"([^\s,.;!?()\"'](?:(?! and )[^,.;!?()\"'\n])*)"
_SAID = r"\s*(?:is|are|was|to|of|as|like|=|:)?\s*"
_LIST_GOES_ON = re.compile(r"[\"'”`]?\s*(?:,\s*(?:and |or )?|(?:and|or|&) )\s*[\"'“`]?")


class Evidence:
    """Offers what a conversation says, each thing once, so that two fields get two things.

    Args:
        texts: Parts of the conversation, the most telling first.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.phrase = " ".join(texts[0].split())
        self._text = "\n".join(_without_json(text) for text in texts)
        self._taken: set[int] = set()
        self._end = 0

    def take(
        self, patterns: Iterable[str], fits: Callable[[str], bool], *, goes_on: bool = False
    ) -> str | None:
        """Take the first match that fits.

        Args:
            patterns: Regular expressions, in order; a group marks the part that counts.
            fits: What the part must be.
            goes_on: Take only the next item of a list that the last taken part is in.
        """
        next_item = self._list_goes_on()
        for pattern in patterns:
            for match in _matches(pattern, self._text):
                group = match.lastindex or 0
                start = match.start(group)
                is_next = start == next_item or not goes_on
                if start in self._taken or not is_next or not fits(match[group]):
                    continue
                self._taken.add(start)
                self._end = match.end(group)
                return match[group]
        return None

    def next_item(self) -> int | None:
        """Return where the next item of a list starts ("in Paris and Rome"), if there is one."""
        place = self._list_goes_on()
        if place is None:
            return None
        before, first = self._text[place - 1], self._text[place : place + 1]
        return place if before in "\"'“`" or first.isupper() or first.isdigit() else None

    def has_taken(self, place: int) -> bool:
        """Tell whether what starts at a place is taken."""
        return place in self._taken

    def number(
        self, name: str, fits: Callable[[Any], bool], *, goes_on: bool = False
    ) -> int | float | None:
        """Take the number said for a field, else the next one."""
        patterns = (rf"(?i:\b{_words(name)}{_SAID})({_NUMBER})", _NUMBER)
        found = self.take(patterns, lambda text: fits(_number(text)), goes_on=goes_on)
        return None if found is None else _number(found)

    def string(
        self, name: str, fits: Callable[[Any], bool], *, goes_on: bool = False
    ) -> str | None:
        """Take what is told of a field, else quoted text or a name."""
        patterns = (rf"(?i:\b{_words(name)}{_TOLD})", rf"{_QUOTED}|{_NAMES}")
        return self.take(patterns, fits, goes_on=goes_on)

    def literal(
        self, values: Sequence[Any], fits: Callable[[Any], bool], *, goes_on: bool = False
    ) -> Any:
        """Take the first of some strings that occurs."""
        known = {value.lower(): value for value in values if isinstance(value, str) and value}
        anyone = "|".join(map(re.escape, sorted(known, key=len, reverse=True))) or r"(?!)"
        found = self.take(
            [rf"(?i)(?<!\w)(?:{anyone})(?!\w)"],
            lambda text: fits(known[text.lower()]),
            goes_on=goes_on,
        )
        return known[found.lower()] if found else None

    def _list_goes_on(self) -> int | None:
        match = _LIST_GOES_ON.match(self._text, self._end)
        return match.end() if match else None

    def speaks_of(self, name: str) -> bool:
        """Tell whether the words of a field's name occur."""
        return re.search(rf"(?i)\b{_words(name)}\b", self._text) is not None


def _matches(pattern: str, text: str) -> list[re.Match[str]]:
    try:
        return list(re.finditer(pattern, text))
    except re.error:  # a schema's pattern in another dialect
        return []


def json_objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Find the JSON objects in a text, with their places."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            end = position + 1
        else:
            yield value, position, end
        position = text.find("{", end)


def split_name(name: str) -> list[str]:
    """Cut identifiers, in snake or camel case, into their words."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)


def _without_json(text: str) -> str:
    """Leave out quoted schemas, whose words are not what is spoken of; unpack other objects."""
    for value, start, end in reversed(list(json_objects(text))):
        said = "; ".join(f"{key}: {item}" for key, item in value.items())
        text = text[:start] + ("" if "properties" in value else said) + text[end:]
    return text


def _words(name: str) -> str:
    return r"[\s_-]+".join(map(re.escape, split_name(name))) or r"(?!)"


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
