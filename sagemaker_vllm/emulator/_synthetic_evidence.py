"""What a conversation says that could fill a value: numbers, quoted text, names, listed choices."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

Span = tuple[int, int]
Find = tuple[Any, Span]

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)")
_NAME = re.compile(r"[A-ZÀ-Þ][\w’'-]+(?:,? [A-ZÀ-Þ][\w’'-]*)*")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n])\W*$")
_SUBJECT = re.compile(r" (?:is|was|has|and|lives|works|likes) ")
_NOT_A_NAME = re.compile(
    r"(?:What|Who|Where|When|Which|How|This|That|These|It|There|Here|He|She|They|We|You|JSON)\b"
)
_LIST_GOES_ON = re.compile(r"\s*(?:,\s*(?:and |or )?|(?:and|or|&) )\s*(?=[\"'“`\w-])")
_SAID = r"\s*(?:is|are|was|to|of|as|named|called|like|=|:)?\s*"
_TOLD = r"\s*(?:\bis\b|\bnamed\b|\bcalled\b|=|:)\s*([^\s,.;!?()\"'][^,.;!?()\"'\n]*)"


class Evidence:
    """Finds values in text; each is used once, so that two fields get two different ones.

    Args:
        texts: Parts of the conversation, the most telling first.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.phrase = " ".join(texts[0].split()) if texts else ""
        self._text = "\n".join(_without_json(text) for text in texts)
        self._used: list[Span] = []

    def mark(self) -> int:
        """Remember what is used so far, for `restore`."""
        return len(self._used)

    def restore(self, mark: int) -> None:
        """Give back what was used since `mark`."""
        del self._used[mark:]

    def use(self, span: Span) -> None:
        """Take a find, so that it is not offered again."""
        self._used.append(span)

    def first_used(self, mark: int) -> int | None:
        """Return the place of the first find used since `mark`."""
        return self._used[mark][0] if len(self._used) > mark else None

    def list_goes_on(self) -> int | None:
        """Return where the next item starts when the last find stands in a list ("a, b and c")."""
        match = _LIST_GOES_ON.match(self._text, self._used[-1][1]) if self._used else None
        return match.end() if match else None

    def speaks_of(self, name: str) -> bool:
        """Tell whether the words of a field's name occur."""
        return self._search(rf"\b{_words(name)}\b") is not None

    def denies(self, name: str) -> bool:
        """Tell whether a field's name is negated."""
        return self._search(rf"\b(?:no|not|without|non)[\s-]+{_words(name)}\b") is not None

    def numbers(self, name: str) -> Iterator[Find]:
        """Offer the number said after a field's name, then all numbers in order."""
        for match in self._matches(rf"\b{_words(name)}{_SAID}(?={_NUMBER.pattern})"):
            if number := _NUMBER.match(self._text, match.end()):
                yield from self._unused([(_number(number[0]), number.span())])
        yield from self._unused((_number(m[0]), m.span()) for m in _NUMBER.finditer(self._text))

    def strings(self, name: str) -> Iterator[Find]:
        """Offer what is said of a field, then quoted text, then names."""
        quoted = [
            (match[match.lastindex or 0], match.span()) for match in _QUOTED.finditer(self._text)
        ]
        told = [
            (match[1].split(" and ")[0].strip(), match.span(1))
            for match in self._matches(rf"\b{_words(name)}{_TOLD}")
        ]
        yield from self._unused(told)
        yield from self._unused(quoted)
        yield from self._unused(
            (match[0], match.span())
            for match in _NAME.finditer(self._text)
            if self._is_name(match)
        )

    def literals(self, values: Sequence[Any]) -> Iterator[Find]:
        """Offer those of some strings that occur, in the order of the text."""
        finds = [
            (value, match.span())
            for value in values
            if isinstance(value, str) and value
            for match in self._matches(rf"(?<!\w){re.escape(value)}(?!\w)")
        ]
        yield from self._unused(sorted(finds, key=lambda find: find[1]))

    def matching(self, pattern: str) -> Iterator[Find]:
        """Offer the places that match a regular expression, as Python reads it."""
        try:
            finds = [(m[0], m.span()) for m in re.finditer(pattern, self._text) if m[0]]
        except re.error:
            return
        yield from self._unused(finds)

    def _unused(self, finds: Any) -> Iterator[Find]:
        for value, (start, end) in finds:
            if not any(start < used_end and used < end for used, used_end in self._used):
                yield value, (start, end)

    def _matches(self, pattern: str) -> Iterator[re.Match[str]]:
        return re.finditer(pattern, self._text, re.IGNORECASE)

    def _search(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self._text, re.IGNORECASE)

    def _is_name(self, match: re.Match[str]) -> bool:
        if _NOT_A_NAME.match(match[0]):
            return False
        is_start = _SENTENCE_START.search(self._text, 0, match.start()) is not None
        return not is_start or _SUBJECT.match(self._text, match.end()) is not None


def json_objects(text: str) -> Iterator[tuple[dict[str, Any], Span]]:
    """Find the JSON objects quoted in a text."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            end = position + 1
        else:
            yield value, (position, end)
        position = text.find("{", end)


def _without_json(text: str) -> str:
    """Leave out quoted schemas and results' field names, which are not what is spoken of."""
    for value, (start, end) in reversed(list(json_objects(text))):
        said = "" if "properties" in value else "; ".join(f"{k}: {v}" for k, v in value.items())
        text = text[:start] + said + text[end:]
    return text


def _words(name: str) -> str:
    return r"[\s_-]+".join(re.escape(word) for word in split_name(name)) or r"(?!)"


def split_name(name: str) -> list[str]:
    """Cut an identifier, in snake or camel case, into its words."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
