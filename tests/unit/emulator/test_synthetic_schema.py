"""Instances of JSON schemas, filled from text."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagemaker_vllm.emulator._synthetic_evidence import Evidence
from sagemaker_vllm.emulator._synthetic_schema import UnsatisfiableError, write_instance

TALK = "Ana Silva is 31, lives in Lisbon; tags: 'red' and 'blue', 2025-03-04, a@b.org, ratio = 0.5"


def write(schema: Any, text: str = "hi", *, is_full: bool = True) -> Any:
    return write_instance(schema, Evidence([text]), is_full=is_full)


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def _ranged(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def record(pair: tuple[Any, Any]) -> dict[str, Any]:
        return {low: min(pair), high: max(pair)}

    bounds = st.tuples(values, values).map(record)
    return st.one_of(st.just({}), bounds, values.map(lambda x: {low: x}))


_SIZES = st.integers(0, 4)
_NUMBERS = st.integers(-50, 50) | st.sampled_from([0.25, -1.5, 2.75])
_SCALARS = st.one_of(
    st.just({}),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({"type": ["string", "null"], "default": None}),
    st.sampled_from(["date", "email", "uuid", "ipv6", "time", "hostname"]).map(
        lambda form: {"type": "string", "format": form}
    ),
    st.sampled_from(["^[a-z]{2,}$", r"\d+-\d+", "(a|b)c?", "^[^a]+$"]).map(
        lambda pattern: {"type": "string", "pattern": pattern}
    ),
    st.lists(st.sampled_from(["red", "blue", 1, True, None, 2.5]), min_size=1).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(["x", 3, None, False, [1], {"a": 1}]).map(lambda value: {"const": value}),
    _ranged("minLength", "maxLength", st.integers(0, 30)).map(lambda x: {"type": "string", **x}),
    _ranged("minimum", "maximum", st.integers(-50, 50)).map(lambda x: {"type": "integer", **x}),
    _ranged("minimum", "maximum", _NUMBERS).map(lambda x: {"type": "number", **x}),
    _NUMBERS.map(lambda x: {"type": "number", "exclusiveMinimum": x, "exclusiveMaximum": x + 0.5}),
    st.tuples(st.integers(-50, 50), st.sampled_from([2, 3, 7, 0.5])).map(
        lambda x: {"type": "number", "minimum": x[0], "multipleOf": x[1]}
    ),
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = st.sampled_from(["name", "age", "tags", "city", "ratio", "é"])
    properties = draw(st.dictionaries(names, inner, max_size=3))
    required = [name for name in properties if draw(st.booleans())]
    more: list[dict[str, Any]] = [{}, {"additionalProperties": False}, {"minProperties": 4}]
    extra = draw(st.sampled_from(more))
    return {"type": "object", "properties": properties, "required": required, **extra}


_SCHEMAS = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        _objects(inner),
        inner.map(lambda schema: {"type": "object", "additionalProperties": schema}),
        st.tuples(inner, _ranged("minItems", "maxItems", _SIZES)).map(
            lambda pair: {"type": "array", "items": pair[0], **pair[1]}
        ),
        st.lists(inner, max_size=2).map(lambda parts: {"type": "array", "prefixItems": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
        st.tuples(inner, inner).map(
            lambda pair: {"allOf": [fields(name=pair[0]), {"properties": {"age": pair[1]}}]}
        ),
        st.sampled_from(["A", "B"]).map(
            lambda name: {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}
        ),
        st.sampled_from(["A", "B"]).map(
            lambda name: fields(x={"anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]})
        ),
    ),
    max_leaves=8,
)


@given(_SCHEMAS, _SCHEMAS, _SCHEMAS, st.sampled_from(["", "hi", TALK]), st.booleans())
def test_every_schema_gets_a_valid_instance(
    schema: Any, first: Any, second: Any, text: str, is_full: bool
) -> None:
    whole = {**schema, "$defs": {"A": fields(a=first), "B": {"anyOf": [second, {"type": "null"}]}}}

    instance = write(whole, text, is_full=is_full)

    jsonschema.Draft202012Validator(whole).validate(instance)


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (fields(name=STRING, age=INTEGER), TALK, {"name": "Ana Silva", "age": 31}),
        (fields(a=INTEGER, b=INTEGER), "What is 3 + 4?", {"a": 3, "b": 4}),
        (fields(b=INTEGER, a=INTEGER), "a is 3, b is 4", {"b": 4, "a": 3}),
        (fields(a=INTEGER), "v1.2.3 of 7th x9, then -5.", {"a": -5}),
        (fields(ratio={"type": "number"}), TALK, {"ratio": 0.5}),
        (fields(tags={"type": "array", "items": STRING}), TALK, {"tags": ["red", "blue"]}),
        (
            fields(cities={"type": "array", "items": STRING}),
            "Compare Paris, London and Rome.",
            {"cities": ["Paris", "London", "Rome"]},
        ),
        (fields(day={"type": "string", "format": "date"}), TALK, {"day": "2025-03-04"}),
        (fields(mail={"type": "string", "format": "email"}), TALK, {"mail": "a@b.org"}),
        (fields(code={"type": "string", "pattern": r"\d{4}-\d\d"}), TALK, {"code": "2025-03"}),
        (fields(unit={"enum": ["C", "Red"]}), "in RED", {"unit": "Red"}),
        (fields(city=STRING), "Weather in San Francisco, CA?", {"city": "San Francisco, CA"}),
        (fields(city=STRING), "the city is paris, please", {"city": "paris"}),
        (fields(query=STRING), "find cheap flights", {"query": "find cheap flights"}),
        (fields(age={**INTEGER, "maximum": 9}), "31 or 7", {"age": 7}),
        (fields(n={"anyOf": [INTEGER, {"type": "null"}], "default": None}), "9", {"n": 9}),
        (fields(n={"anyOf": [INTEGER, {"type": "null"}], "default": None}), "hi", {"n": None}),
        (fields(n={**STRING, "default": None}), "hi", {"n": "n: hi"}),
        (fields(s={"type": "string", "maxLength": 4}), "hello", {"s": "s: h"}),
        ({"type": "object", "additionalProperties": INTEGER}, "hi", {"key": 1}),
        (
            {"type": "object", "patternProperties": {"^x-[a-z]+$": INTEGER}},
            "hi",
            {"x-a": 1},
        ),
    ],
)
def test_values_come_from_the_text_else_the_default_else_small_ones(
    schema: Any, text: str, expected: Any
) -> None:
    assert write(schema, text) == expected


def test_optional_fields_need_a_mention_when_not_all_are_wanted() -> None:
    schema = {
        "type": "object",
        "properties": {"city": STRING, "unit": {"enum": ["C", "F"]}, "day": STRING, "n": INTEGER},
        "required": ["city"],
    }

    short = write(schema, "Weather in Paris in F, n = 3", is_full=False)

    assert short == {"city": "Paris", "unit": "F", "n": 3}


def test_quoted_json_is_not_taken_for_speech() -> None:
    text = 'Ana is 31. Schema: {"properties": {"name": {"title": "Name", "minLength": 7}}}'

    assert write(fields(name=STRING, age=INTEGER, n=INTEGER), text)["n"] == 1


def test_recursion_ends() -> None:
    node = fields(value=INTEGER, children={"type": "array", "items": {"$ref": "#/$defs/Node"}})
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}

    assert write(schema) == {"value": 1, "children": []}


def test_recursion_goes_as_deep_as_it_must() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"$ref": "#"}, INTEGER]}, "minItems": 1}
    nested = {"$ref": "#/$defs/L", "minItems": 1}
    nested["$defs"] = {"L": {"type": "array", "items": {"$ref": "#/$defs/L"}}}

    assert write(schema) == [[1]]
    assert write(nested) == [[]]


def test_discriminated_unions_and_escaped_references_are_followed() -> None:
    cat = {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]}
    schema = {"oneOf": [{"$ref": "#/$defs/a~1b%20c"}], "$defs": {"a/b c": cat}}

    assert write(schema) == {"kind": "cat"}


def test_references_that_lead_nowhere_allow_anything() -> None:
    assert write({"$ref": "https://example.com/x.json"}) == "hi"
    assert write({"$ref": "#/$defs/missing"}) == "hi"


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"enum": []},
        {"allOf": [STRING, INTEGER]},
        {"$ref": "#"},
        fields(a={"$ref": "#"}),
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"allOf": [fields(a=INTEGER), {"type": "object", "additionalProperties": False}]},
    ],
)
def test_schemas_that_allow_nothing_are_told(schema: Any) -> None:
    with pytest.raises(UnsatisfiableError):
        write(schema)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"allOf": [{"type": "number"}, {"type": ["integer", "null"]}]}, 1),
        ({"allOf": [{"enum": [1, 2, 3]}, {"enum": [3, 2]}]}, 2),
        ({"allOf": [{"minimum": 3}, {"minimum": 5, "maximum": 9}], "type": "integer"}, 5),
        ({"allOf": [{"items": {"minimum": 2}}, {"items": INTEGER}], "type": "array"}, [2]),
        ({"type": "array", "items": [INTEGER, STRING]}, [1, "hi"]),
        ({"type": "array", "items": {"enum": []}}, []),
        ({"type": ["array", "null"], "default": ["x"]}, ["x"]),
        ({"type": "object", "required": ["b"], "default": {"b": 1}}, {"b": 1}),
        ({"type": "string", "pattern": r"^\p{Lu}+$"}, "a"),
    ],
)
def test_parts_of_a_schema_are_put_together(schema: Any, expected: Any) -> None:
    assert write(schema) == expected
