"""Writes a text that a regular expression or a grammar allows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_SHORTHANDS = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a", "p": "a", "P": "1"}
_SHORTHANDS |= {"b": "", "B": "", **_ESCAPES}
_FOR_NEGATED = "a1A -_.,:;!?@#/+*xyzZ09é~\n"
_QUANTIFIER = re.compile(r"(?:([?*+])|\{(\d*)(,?)(\d*)\})[?+]?")
_PREFIX = re.compile(r"\?(?::|P?<\w+>|[a-zA-Z-]+[:)])")
_LOOK_AROUND = re.compile(r"\?<?[=!]")
_HEX = re.compile(r"(?:x|u)(?:\{(\w+)\}|(\w{4})|(\w\w))")
_PROPERTY = re.compile(r"[pP](?:\{\w+\}|\w)")
_CLASS = re.compile(r"\[(\^?)((?:\\.|[^\\])(?:\\.|[^\\\]])*)\]", re.DOTALL)
_TIMES = (1, 0, 2, 3, 4, 5, 6, 8, 10, 13, 16, 24, 36, 64, 128, 256)
_ENDLESS = "\0"  # stands for a rule that comes back in itself


class PatternError(ValueError):
    """A regular expression that vLLM's grammar engine does not take.

    Attributes:
        start: Where in the pattern.
        width: Length of the faulty part.
    """

    def __init__(self, message: str, start: int, width: int = 1) -> None:
        super().__init__(message)
        self.start = start
        self.width = width


def check_pattern(pattern: str, *, is_lax: bool = False) -> None:
    """Read a pattern as vLLM's grammar engine would.

    Args:
        pattern: A regular expression.
        is_lax: Whether look-around and back-references pass, as in a JSON schema.

    Raises:
        PatternError: It uses what does not pass, or is not well formed.
    """
    _Reader(pattern, times=0 if is_lax else -1).read()


def samples(pattern: str) -> Iterator[str]:
    """Write texts in which a pattern is found, plain and short ones first; maybe none.

    Known are alternatives, groups, classes, escapes, anchors, quantifiers. Look-around is skipped,
    and those texts are left that Python's `re` then finds right.
    """
    seen = set()
    for times in _TIMES:
        for choice in range(3):
            text = _Reader(pattern, times, choice).read()
            if text not in seen and _ENDLESS not in text and is_match(pattern, text):
                yield text
            seen.add(text)


def is_match(pattern: str, text: str) -> bool:
    """Tell whether a pattern is found in a text; one of another dialect always is."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


@dataclass(slots=True)
class _Reader:
    """Reads a pattern and writes one text of it; `times` 0 or more makes it lax."""

    pattern: str
    times: int = -1
    choice: int = 0
    at: int = 0

    def read(self) -> str:
        text = self._alternatives()
        if self.at < len(self.pattern):
            raise PatternError("unopened group", self.at)
        return text

    def _take(self, what: re.Pattern[str]) -> re.Match[str] | None:
        match = what.match(self.pattern, self.at)
        self.at = match.end() if match else self.at
        return match

    def _alternatives(self) -> str:
        texts = [self._sequence()]
        while self.pattern[self.at : self.at + 1] == "|":
            self.at += 1
            texts.append(self._sequence())
        texts = [text for text in texts if _ENDLESS not in text] or texts
        return texts[min(self.choice, len(texts) - 1)]

    def _sequence(self) -> str:
        text = ""
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            item = self._item()
            while quantifier := self._take(_QUANTIFIER):
                sign, low, comma, high = quantifier.groups()
                least = int(low or sign == "+")
                most = 1 if sign == "?" else int(high or (self.times if sign or comma else least))
                item *= max(least, min(self.times, most))
            text += item
        return text

    def _item(self) -> str:
        start, char = self.at, self.pattern[self.at]
        self.at += 1
        match char:
            case "(":
                return self._group(start)
            case "[":
                return self._class(start)
            case "\\":
                return self._escape()
            case "?" | "*" | "+":
                raise PatternError("repetition operator missing expression", start)
        return {"^": "", "$": "", ".": "x"}.get(char, char)

    def _group(self, start: int) -> str:
        look = self._take(_LOOK_AROUND)
        if look and self.times < 0:
            message = "look-around, including look-ahead and look-behind, is not supported"
            raise PatternError(message, start, 1 + len(look[0]))
        prefix = self._take(_PREFIX)
        if prefix and prefix[0].endswith(")"):  # flags for the rest, such as `(?i)`
            return ""
        text = self._alternatives()
        if self.pattern[self.at : self.at + 1] != ")":
            raise PatternError("unclosed group", start)
        self.at += 1
        return "" if look else text

    def _class(self, start: int) -> str:
        match = _CLASS.match(self.pattern, start)
        if match is None:
            raise PatternError("unclosed character class", start)
        self.at = match.end()
        if match[1]:
            return next((char for char in _FOR_NEGATED if is_match(match[0], char)), "")
        reader = _Reader(match[2], self.times, at=1)
        return reader._escape() if match[2][0] == "\\" else match[2][0]

    def _escape(self) -> str:
        if match := self._take(_HEX):
            return chr(int(next(filter(None, match.groups())), 16))
        if match := self._take(_PROPERTY):
            return _SHORTHANDS[match[0][0]]
        char = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not char:
            raise PatternError("incomplete escape sequence", self.at - 2)
        if char.isdigit() and self.times < 0:
            raise PatternError("backreferences are not supported", self.at - 2, 2)
        return _SHORTHANDS.get(char, char)


_RULE = re.compile(r"^\s*[?!]?([\w-]+)\s*(?:::=|:)\s*(.*)$")
_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|/((?:\\.|[^/\\])*)/|(\[(?:\\.|[^\]\\])*\])|([\w-]+)|(\S)')


def grammar_samples(grammar: str) -> Iterator[str]:
    """Write sentences of a grammar (EBNF or Lark), short ones first; maybe none.

    Raises:
        KeyError: A rule is missing; the argument is its name.
    """
    rules: dict[str, str] = {}
    name = "root"
    for line in grammar.splitlines():
        rule = _RULE.match(line)
        name, text = rule.groups() if rule else (name, line)
        rules[name] = f"{rules.get(name, '')} {text}"
    start = next(name for name in ("root", "start", *rules) if name in rules)
    return samples(_as_pattern(start, rules, ()))


def _as_pattern(name: str, rules: dict[str, str], path: tuple[str, ...]) -> str:
    """Turn a rule into a regular expression; a rule comes back in itself once at most."""
    pattern = ""
    for literal, regex, chars, reference, sign in _TOKEN.findall(rules[name]):
        if reference:
            is_endless = path.count(reference) > 1
            inner = _ENDLESS if is_endless else _as_pattern(reference, rules, (*path, reference))
            pattern += f"(?:{inner})"
        else:
            plain = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), literal)
            pattern += regex or chars or sign or re.escape(plain)
    return pattern
