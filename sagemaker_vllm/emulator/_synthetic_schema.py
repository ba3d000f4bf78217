"""Writes an instance of a JSON schema, filled from a conversation where that says something."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from typing import Any
from urllib.parse import unquote

from sagemaker_vllm.emulator._synthetic_evidence import Evidence
from sagemaker_vllm.emulator._synthetic_pattern import is_match, samples

Schema = Any
"""A JSON schema: an object or a boolean."""

_Path = tuple[str, ...]

_UUID = "123e4567-e89b-42d3-a456-426614174000"
FORMATS: Mapping[str, tuple[str, str]] = {
    "email": (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "someone@example.com"),
    "date": (r"\b\d{4}-\d\d-\d\d\b", "2025-01-31"),
    "time": (r"\b\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", "12:30:00Z"),
    "date-time": (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", "2025-01-31T12:30:00Z"),
    "duration": (r"\bP(?:\d+D)?T(?:\d+[HMS])+\b", "P1D"),
    "ipv4": (r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "192.0.2.1"),
    "ipv6": (r"\b(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b", "2001:db8::1"),
    "hostname": (r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)+\b", "example.com"),
    "uuid": (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", _UUID),
    "uri": (r"\b[a-z]+://[^\s\"'<>()]+", "https://example.com/"),
    "uri-reference": (r"\b[a-z]+://[^\s\"'<>()]+", "/path"),
    "uri-template": (r"(?!)", "/things/{id}"),
    "json-pointer": (r"(?!)", "/key"),
    "relative-json-pointer": (r"(?!)", "0"),
}
"""The string formats that vLLM's xgrammar knows: how one looks in text, and a sample."""

_TYPES = ("string", "number", "boolean", "array", "object", "null")
_IMPLIED = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties", "patternProperties"},
}
_TIGHTER: Mapping[str, Any] = {
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
}
_ABOVE, _BELOW = "exclusiveMinimum", "exclusiveMaximum"
_WHOLE_TEXT = frozenset({"", "query", "question", "text", "prompt", "input", "message", "content"})
# Optional fields end at a depth of references; a reference comes back in itself at most so often.
_MAX_OPTIONAL_DEPTH, _MAX_REENTRIES, _MAX_BRANCHES = 5, 2, 64


class UnsatisfiableError(ValueError):
    """No instance was found for a schema."""


def write_instance(schema: Schema, evidence: Evidence, *, is_full: bool = True) -> Any:
    """Write a value that a schema allows.

    A field gets what the conversation says for it, else its `default`, else a small value.
    As in vLLM's grammar engines `oneOf` is `anyOf`, and `not`, `if`, `contains`, `uniqueItems`,
    `propertyNames`, `dependent*` and references that lead nowhere count for nothing.

    Args:
        schema: The schema; `$ref` may point into it.
        evidence: Where values are looked for.
        is_full: Whether optional fields that the conversation does not mention are written too.

    Raises:
        UnsatisfiableError: The schema allows nothing, or nothing that is found here.
    """
    for reentries in range(_MAX_REENTRIES + 1):
        try:
            return _Writer(schema, evidence, is_full, reentries).write(schema, "", ())
        except UnsatisfiableError:
            continue
    raise UnsatisfiableError("nothing found")


def resolve(reference: str, root: Schema) -> Schema:
    """Return what a `$ref` points to; one that leads nowhere allows anything."""
    target = root
    for step in reference.removeprefix("#").split("/")[1:] if reference[:1] == "#" else ("?",):
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        try:
            target = target[int(key)] if isinstance(target, list) else target[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return True
    return target


@dataclass(frozen=True, slots=True)
class _Writer:
    root: Schema
    evidence: Evidence
    is_full: bool
    reentries: int

    def write(self, schema: Schema, name: str, path: _Path) -> Any:
        options = list(islice(self._options(schema, path), _MAX_BRANCHES))
        for plain, _ in options:
            if (found := self._found(plain, name)) is not None:
                return found
        for plain, _ in options:
            if "default" in plain and any(_fits(plain["default"], other) for other, _ in options):
                return plain["default"]
        for plain, inner in options:
            for kind in _types(plain):
                try:
                    return self._made(kind, plain, name, inner)
                except UnsatisfiableError:
                    continue
        raise UnsatisfiableError(name)

    def _options(self, schema: Schema, path: _Path) -> Iterator[tuple[dict[str, Any], _Path]]:
        """Give what a schema comes to when references, `allOf` and alternatives are put in."""
        try:
            plain, groups, path = self._merged(schema, path)
        except UnsatisfiableError:
            return
        if not groups:
            yield plain, path
            return
        for branches in product(*groups):
            yield from self._options({**plain, "allOf": branches}, path)

    def _merged(self, schema: Schema, path: _Path) -> tuple[dict[str, Any], list[Any], _Path]:
        if isinstance(schema, bool):
            if not schema:
                raise UnsatisfiableError("false")
            return {}, [], path
        plain = {k: v for k, v in schema.items() if k not in ("$ref", "allOf", "anyOf", "oneOf")}
        parts, groups = list(schema.get("allOf", ())), list[Any]()
        if (reference := schema.get("$ref")) is not None:
            if path.count(reference) > self.reentries:
                raise UnsatisfiableError("endless")
            path = (*path, reference)
            parts.append(resolve(reference, self.root))
        for part in parts:
            sub, subgroups, path = self._merged(part, path)
            plain = _merge(plain, sub)
            groups += subgroups
        for group in (schema[key] for key in ("anyOf", "oneOf") if key in schema):
            groups.append(sorted(group, key={"type": "null"}.__eq__))
        return plain, groups, path

    def _found(self, plain: dict[str, Any], name: str, *, goes_on: bool = False) -> Any:
        """Take a value from the conversation; `None` if it says nothing."""

        def fits(value: Any) -> bool:
            return _fits(value, plain)

        if "enum" in plain or "const" in plain:
            return self.evidence.literal(plain.get("enum", ()), fits, goes_on=goes_on)
        kinds = _types(plain)
        if "string" not in kinds:
            is_number = "number" in kinds or "integer" in kinds
            return self.evidence.number(name, fits, goes_on=goes_on) if is_number else None
        pattern = plain.get("pattern") or FORMATS.get(plain.get("format", ""), ("",))[0]
        if pattern:
            return self.evidence.take([pattern], fits, goes_on=goes_on)
        return self.evidence.string(name, fits, goes_on=goes_on)

    def _made(self, kind: str, plain: dict[str, Any], name: str, path: _Path) -> Any:
        values: Iterable[Any]
        if "const" in plain or "enum" in plain:
            values = [plain["const"]] if "const" in plain else plain["enum"]
        else:
            match kind:
                case "array":
                    return self._array(plain, name, path)
                case "object":
                    return self._object(plain, path)
                case "string":
                    values = self._strings(plain, name)
                case "number" | "integer":
                    values = _numbers(plain)
                case _:
                    values = (True, False) if kind == "boolean" else (None,)
        for value in values:
            if _fits(value, {**plain, "type": kind}):
                return value
        raise UnsatisfiableError(name)

    def _strings(self, plain: dict[str, Any], name: str) -> Iterator[str]:
        low, high = plain.get("minLength", 0), plain.get("maxLength")
        if "pattern" in plain:
            yield from samples(plain["pattern"])
        elif plain.get("format") in FORMATS:
            yield FORMATS[plain["format"]][1]
        else:
            phrase = self.evidence.phrase[:80]
            text = phrase if name in _WHOLE_TEXT else f"{name}: {phrase}"
            yield text[:high].ljust(low, ".")

    def _array(self, plain: dict[str, Any], name: str, path: _Path) -> list[Any]:
        items = plain.get("items", True)
        prefix = plain.get("prefixItems", items if isinstance(items, list) else [])
        items = True if isinstance(items, list) else items
        low, high = plain.get("minItems", 0), plain.get("maxItems", math.inf)
        values: list[Any] = []
        while len(values) < min(high, max(low, len(prefix), 1)):
            schema = prefix[len(values)] if len(values) < len(prefix) else items
            try:
                values.append(self.write(schema, name, path))
            except UnsatisfiableError:
                if len(values) < low:
                    raise
                break
        for option, _ in islice(self._options(items, path), len(values) >= len(prefix)):
            while len(values) < high:
                found = self._found(option, name, goes_on=True)
                if found is None:
                    break
                values.append(found)
        return values

    def _object(self, plain: dict[str, Any], path: _Path) -> dict[str, Any]:
        required, least = plain.get("required", ()), plain.get("minProperties", 0)
        properties = plain.get("properties", {})
        value: dict[str, Any] = {}
        for key in dict.fromkeys((*properties, *required)):
            schema = properties.get(key, plain.get("additionalProperties", True))
            try:
                if key in required or self._wants(key, schema, path):
                    value[key] = self.write(schema, key, path)
            except UnsatisfiableError:
                if key in required:
                    raise
        patterns = plain.get("patternProperties", {})
        is_map = isinstance(plain.get("additionalProperties"), Mapping) or patterns
        if is_map and not value and self.is_full and len(path) < _MAX_OPTIONAL_DEPTH:
            least = max(least, 1)
        extras = [(key, patterns[p]) for p in patterns for key in islice(samples(p), least)]
        others = plain.get("additionalProperties", True)
        extras += [("key" + "_" * count, others) for count in range(least)]
        for key, schema in extras:
            if len(value) < least:
                value.setdefault(key, self.write(schema, key, path))
        return value

    def _wants(self, key: str, schema: Schema, path: _Path) -> bool:
        if self.is_full and len(path) < _MAX_OPTIONAL_DEPTH:
            return True
        choices = schema.get("enum", ()) if isinstance(schema, Mapping) else ()
        words = (key, *(choice for choice in choices if isinstance(choice, str)))
        return any(map(self.evidence.speaks_of, words))


def _types(plain: Mapping[str, Any]) -> list[str]:
    """Name the types a schema allows, `null` last; those its keywords speak of if it names none."""
    if "type" not in plain:
        implied = [kind for kind, keys in _IMPLIED.items() if keys & plain.keys()]
        return list(dict.fromkeys((*implied, *_TYPES)))
    kinds = [plain["type"]] if isinstance(plain["type"], str) else plain["type"]
    return sorted(kinds, key="null".__eq__)


def _fits(value: Any, plain: Mapping[str, Any]) -> bool:
    """Tell whether a schema without alternatives allows a value, not looking into it."""
    allowed = [plain["const"]] if "const" in plain else plain.get("enum")
    if allowed is not None and json.dumps(value) not in map(json.dumps, allowed):
        return False
    kinds = _types(plain)
    match value:
        case None:
            return "null" in kinds
        case bool():
            return "boolean" in kinds
        case str():
            is_right = is_match(plain.get("pattern", ""), value)
            return "string" in kinds and is_right and _is_between(len(value), plain, "Length")
        case int() | float():
            step = plain.get("multipleOf", 1 if "number" not in kinds else None)
            is_step = step is None or Fraction(str(value)) % Fraction(str(step)) == 0
            is_above = plain.get("minimum", value) <= value > plain.get(_ABOVE, -math.inf)
            is_below = plain.get("maximum", value) >= value < plain.get(_BELOW, math.inf)
            return bool({"number", "integer"} & {*kinds}) and is_step and is_above and is_below
        case list():
            return "array" in kinds and _is_between(len(value), plain, "Items")
    return "object" in kinds and all(key in value for key in plain.get("required", ()))


def _is_between(count: int, plain: Mapping[str, Any], what: str) -> bool:
    return bool(plain.get(f"min{what}", 0) <= count <= plain.get(f"max{what}", math.inf))


def _numbers(plain: Mapping[str, Any]) -> Iterator[int | float]:
    """Give small numbers and those beside the bounds, in steps of `multipleOf`."""
    low = max(plain.get("minimum", -math.inf), plain.get(_ABOVE, -math.inf))
    high = min(plain.get("maximum", math.inf), plain.get(_BELOW, math.inf))
    step = Fraction(str(plain.get("multipleOf", 1)))
    for start in filter(math.isfinite, (1, 0, low, high, (low + high) / 2)):
        nearest = round(Fraction(str(start)) / step)
        for steps in (nearest, nearest + 1, nearest - 1, nearest + 2, nearest - 2):
            value = step * steps
            yield int(value) if value.denominator == 1 else float(value)
        yield start


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two schemas; where that cannot be said in one, the first wins."""
    merged = {**second, **first}
    for key in first.keys() & second.keys():
        one, two = first[key], second[key]
        if key in _TIGHTER:
            merged[key] = _TIGHTER[key](one, two)
        elif key == "type":
            kinds = [(a, b) for a in _types(first) for b in _types(second)]
            numeric = {("number", "integer"), ("integer", "number")}
            merged[key] = [
                a if a == b else "integer" for a, b in kinds if a == b or (a, b) in numeric
            ]
        elif key == "required":
            merged[key] = list(dict.fromkeys((*one, *two)))
        elif key == "enum":
            merged[key] = [value for value in one if value in two]
        elif key in ("items", "additionalProperties"):
            merged[key] = _both(one, two)
    names = {**first.get("properties", {}), **second.get("properties", {})}
    if names:
        merged["properties"] = {
            name: _both(_property(first, name), _property(second, name)) for name in names
        }
    return merged


def _both(one: Schema, two: Schema) -> Schema:
    return one if two is True else two if one is True else {"allOf": [one, two]}


def _property(plain: Mapping[str, Any], name: str) -> Schema:
    return plain.get("properties", {}).get(name, plain.get("additionalProperties", True))
