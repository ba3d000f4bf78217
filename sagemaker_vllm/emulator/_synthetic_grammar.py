"""Which constraints vLLM's grammar engines refuse, and in what words.

vLLM tries xgrammar first. A schema with something that xgrammar does not know goes to llguidance,
which refuses other things; one with `patternProperties` goes to outlines, which takes it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sagemaker_vllm.emulator._synthetic_pattern import (
    PatternError,
    check_pattern,
    grammar_samples,
)
from sagemaker_vllm.emulator._synthetic_refusal import RefusedError
from sagemaker_vllm.emulator._synthetic_schema import FORMATS, resolve

_TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_NOT_IN_GUIDANCE = {
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "then",
}
_NOT_IN_GUIDANCE |= {"maxContains", "minContains", "propertyNames", "uniqueItems"}
_NOT_IN_GUIDANCE |= {"unevaluatedItems", "unevaluatedProperties"}


def check_constraint(kind: str, value: Any) -> None:
    """Refuse the constraints that vLLM refuses.

    Args:
        kind: A key of `structured_outputs`.
        value: Its value.

    Raises:
        RefusedError: With the engine's sentence.
    """
    problem = None
    match kind:
        case "json":
            problem = _schema_problem(value)
        case "regex":
            problem = _regex_problem(value)
        case "choice" if not value:
            problem = "Choice '[]' cannot be an empty list"
        case "json_object" if value is not True:
            problem = "structured_outputs.json_object must be True if set; omit structured_outputs "
            problem += "to disable structured outputs"
        case "grammar":
            try:
                next(grammar_samples(value), None)
            except KeyError as error:
                problem = (
                    "Invalid grammar specification: Failed to convert the grammar from GBNF to "
                )
                problem += f"Lark: Rule {error} not found"
    if problem is not None:
        raise RefusedError(problem, is_late=True)


def is_beyond_xgrammar(schema: Any) -> bool:
    """Tell whether a schema uses something that xgrammar does not know."""
    return any(map(_exceeds_xgrammar, _objects(schema)))


def _schema_problem(schema: Any) -> str | None:
    nodes = list(_reachable(schema, schema, set()))
    is_for_guidance = is_beyond_xgrammar(schema) and not any(
        "patternProperties" in node for node in _objects(schema)
    )
    for node in nodes:
        problem = _broken(node, schema) or (_beyond_guidance(node) if is_for_guidance else None)
        if problem is not None:
            return f"Grammar error: {problem}"
    return None


def _broken(node: Mapping[str, Any], root: Any) -> str | None:
    reference = node.get("$ref", "")
    if unknown := sorted(_kinds(node) - _TYPES):
        return f"Invalid type: {unknown[0]}"
    if not isinstance(node.get("properties", {}), Mapping):
        return "properties must be an object"
    if reference.startswith("#/") and resolve(reference, root) is True:
        return f"Pointer '{reference[1:]}' does not exist"
    return _pattern_problem(node.get("pattern", ""), is_lax=True)


def _beyond_guidance(node: Mapping[str, Any]) -> str | None:
    if keys := sorted(node.keys() & _NOT_IN_GUIDANCE):
        quoted = ", ".join(f'"{key}"' for key in keys)
        return f"Unimplemented keys: [{quoted}]"
    is_known = node.get("format", "date") in FORMATS
    return None if is_known else f"Unknown format: {node['format']}"


def _pattern_problem(pattern: str, *, is_lax: bool = False) -> str | None:
    try:
        check_pattern(pattern, is_lax=is_lax)
    except PatternError as error:
        place = " " * (4 + error.start) + "^" * error.width
        return f"regex parse error:\n    {pattern}\n{place}\nerror: {error}"
    return None


def _regex_problem(pattern: str) -> str | None:
    if (problem := _pattern_problem(pattern)) is None:
        return None
    quoted = pattern.replace("\\", "\\\\").replace('"', '\\"')
    where = f"   1 | start: /{pattern}/\n              ^"
    return f'Grammar error: at 1(8): invalid regex "{quoted}" (in regex): {problem}\n{where}'


def _objects(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Walk everything, as vLLM's own look for unknown features does."""
    if isinstance(schema, Mapping):
        yield schema
    parts = schema.values() if isinstance(schema, Mapping) else schema
    for part in parts if isinstance(schema, Mapping | list) else ():
        yield from _objects(part)


def _reachable(schema: Any, root: Any, seen: set[str]) -> Iterator[Mapping[str, Any]]:
    """Walk the schemas that can matter to an answer."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    if (reference := schema.get("$ref")) is not None and reference not in seen:
        seen.add(reference)
        yield from _reachable(resolve(reference, root), root, seen)
    properties = schema.get("properties")
    lists = [schema.get(key) or () for key in ("anyOf", "oneOf", "allOf", "prefixItems")]
    for part in (
        *(schema.get(key) for key in ("items", "additionalProperties", "contains", "not")),
        *(part for parts in lists for part in parts),
        *(properties.values() if isinstance(properties, Mapping) else ()),
    ):
        yield from _reachable(part, root, seen)


def _kinds(node: Mapping[str, Any]) -> set[Any]:
    kinds = node.get("type", ())
    return {kinds} if isinstance(kinds, str) else {*kinds} if isinstance(kinds, list) else set()


def _exceeds_xgrammar(node: Mapping[str, Any]) -> bool:
    kinds, keys = _kinds(node), node.keys()
    is_shaped = bool(keys & {"pattern", "format"}) and bool(keys & {"minLength", "maxLength"})
    counted = {"uniqueItems", "contains", "minContains", "maxContains"}
    return (
        ("multipleOf" in keys and bool(kinds & {"integer", "number"}))
        or ("array" in kinds and bool(keys & counted))
        or ("string" in kinds and (is_shaped or node.get("format", "date") not in FORMATS))
        or ("object" in kinds and {"propertyNames", "properties"} <= keys)
        or ("object" in kinds and {"patternProperties", "properties"} <= keys)
        or len(node.get("allOf", ())) > 1
    )
