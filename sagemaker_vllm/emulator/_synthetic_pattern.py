"""Writes a text that a regular expression or a grammar allows."""

import re
from dataclasses import dataclass, field

_CLASS_SAMPLES = {"d": "1", "w": "a", "s": " ", "D": "a", "W": "-", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "", "B": "", "A": "", "z": ""}
_CANDIDATES = "a1A -_.,:;!?@#/+*xyzZ09é~\n"
_QUANTIFIER = re.compile(r"([?*+]|\{(\d*)(,?)(\d*)\})[?+]?")
_GROUP = re.compile(r"\?(?::|P?<(?![=!])\w+>|[a-zA-Z-]+[:)])")
_LOOK_AROUND = "look-around, including look-ahead and look-behind, is not supported"
_TRIES = (1, 0, 2, 3, 5, 8, 13, 21, 34, 64)


class PatternError(ValueError):
    """A regular expression that the engine behind vLLM does not take.

    Attributes:
        start: Where in the pattern.
        width: Length of the faulty part.
    """

    def __init__(self, message: str, start: int, width: int) -> None:
        super().__init__(message)
        self.start = start
        self.width = width


def check(pattern: str) -> None:
    """Read a pattern as the engine behind vLLM would.

    Raises:
        PatternError: It uses look-around or a back-reference, or is not well formed.
    """
    _Reader(pattern).read()


def samples(pattern: str) -> list[str]:
    """Write texts in which the pattern is found, short ones first; maybe none.

    Known are alternatives, groups, classes, escapes, anchors and quantifiers. Look-around is left
    out, as vLLM's schema engine does; the texts are then those that pass Python's `re`.
    """
    texts = [
        _Reader(pattern, times=times, choice=choice, is_lax=True).read()
        for choice in range(3)
        for times in _TRIES
    ]
    return [text for text in dict.fromkeys(texts) if _is_found(pattern, text)]


def _is_found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # another dialect, such as `\p{L}`
        return True


@dataclass(slots=True)
class _Reader:
    """Reads a pattern and writes one text of it on the way."""

    pattern: str
    times: int = 1
    choice: int = 0
    is_lax: bool = False
    at: int = field(default=0, init=False)

    def read(self) -> str:
        text = self._alternatives()
        if self.at < len(self.pattern):
            raise PatternError("unopened group", self.at, 1)
        return text

    def _take(self, text: str) -> bool:
        is_next = self.pattern.startswith(text, self.at)
        self.at += len(text) * is_next
        return is_next

    def _alternatives(self) -> str:
        texts = [self._sequence()]
        while self._take("|"):
            texts.append(self._sequence())
        return texts[min(self.choice, len(texts) - 1)]

    def _sequence(self) -> str:
        text = ""
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            item = self._item()
            while quantifier := _QUANTIFIER.match(self.pattern, self.at):
                self.at = quantifier.end()
                item *= self._count(quantifier)
            text += item
        return text

    def _count(self, quantifier: re.Match[str]) -> int:
        sign, low, comma, high = quantifier.groups()
        if sign in "?*+":
            least, most = int(sign == "+"), 1 if sign == "?" else self.times
        else:
            least = int(low or 0)
            most = int(high) if high else self.times if comma else least
        return max(least, min(self.times, max(least, most)))

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
            case "^" | "$":
                return ""
            case "?" | "*" | "+":
                raise PatternError("repetition operator missing expression", start, 1)
        return "x" if char == "." else char

    def _group(self, start: int) -> str:
        is_look = re.match(r"\?<?[=!]", self.pattern[self.at :])
        if is_look and not self.is_lax:
            raise PatternError(_LOOK_AROUND, start, 1 + len(is_look[0]))
        if is_look:
            self.at += len(is_look[0])
        elif prefix := _GROUP.match(self.pattern, self.at):
            self.at = prefix.end()
            if prefix[0].endswith(")"):  # flags for the rest, such as `(?i)`
                return ""
        text = self._alternatives()
        if not self._take(")"):
            raise PatternError("unclosed group", start, 1)
        return "" if is_look else text

    def _class(self, start: int) -> str:
        is_negated, members = self._take("^"), ""
        while not self.pattern.startswith("]", self.at) or not members:
            if self.at >= len(self.pattern):
                raise PatternError("unclosed character class", start, 1)
            char = self.pattern[self.at]
            self.at += 1
            members += self._escape() if char == "\\" else char
        self.at += 1
        if not is_negated:
            return members[self.choice % len(members)] if self.is_lax else members[0]
        inside = self.pattern[start : self.at]
        allowed = (char for char in _CANDIDATES if _is_found(inside, char))
        return next(allowed, "")

    def _escape(self) -> str:
        if self.at >= len(self.pattern):
            raise PatternError("incomplete escape sequence", self.at - 1, 1)
        char = self.pattern[self.at]
        self.at += 1
        if char.isdigit() and not self.is_lax:
            raise PatternError("backreferences are not supported", self.at - 2, 2)
        if code := re.compile(r"\{?([0-9A-Fa-f]{2,6})\}?").match(self.pattern, self.at):
            if char in "xu":
                digits = code[1] if code[0].startswith("{") else code[1][: 2 if char == "x" else 4]
                self.at += len(digits) + 2 * code[0].startswith("{")
                return chr(int(digits, 16))
        if char in "pP":
            self.at = self.pattern.find("}", self.at) + 1 or len(self.pattern)
            return "a" if char == "p" else "1"
        return _CLASS_SAMPLES.get(char, _CONTROLS.get(char, char))


_RULE = re.compile(r"^\s*[?!]?([\w-]+)(?:\.\d+)?\s*(?:::=|:)\s*(.*)$")
_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"i?|/((?:\\.|[^/\\])*)/|(\[(?:\\.|[^\]\\])*\])|([\w-]+)|(\S)')
_MAX_DEPTH = 12


def grammar_pattern(grammar: str) -> str:
    """Turn a grammar (EBNF or Lark) into a regular expression of some of its sentences.

    Recursive rules are followed to a fixed depth.

    Raises:
        KeyError: A rule is missing; the argument is its name.
    """
    rules: dict[str, str] = {}
    name = ""
    for line in grammar.splitlines():
        text = re.sub(r"^\s*(?:#|//|%).*", "", line)
        if rule := _RULE.match(text):
            name, text = rule[1], rule[2]
        rules[name] = f"{rules.get(name, '')} {text}"
    start = "root" if "root" in rules else "start" if "start" in rules else next(iter(rules))
    return _expand(start, rules, 0)


def _expand(name: str, rules: dict[str, str], depth: int) -> str:
    if name not in rules:
        raise KeyError(name)
    pattern = ""
    for literal, regex, chars, reference, sign in _TOKEN.findall(rules[name]):
        if reference and depth < _MAX_DEPTH:
            pattern += f"(?:{_expand(reference, rules, depth + 1)})"
        elif reference:
            pattern += "(?:)"
        elif regex:
            pattern += f"(?:{regex})"
        else:
            pattern += chars or sign or re.escape(_unescape(literal))
    return pattern


def _unescape(literal: str) -> str:
    return re.sub(r"\\(.)", lambda match: _CONTROLS.get(match[1]) or match[1], literal)
