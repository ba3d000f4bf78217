"""What the made-up model would write, before the server cuts and parses it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sagemaker_vllm.emulator._synthetic_conversation import Conversation
from sagemaker_vllm.emulator._synthetic_evidence import Evidence, json_objects
from sagemaker_vllm.emulator._synthetic_grammar import is_beyond_xgrammar
from sagemaker_vllm.emulator._synthetic_pattern import grammar_samples, is_match, samples
from sagemaker_vllm.emulator._synthetic_refusal import RefusedError
from sagemaker_vllm.emulator._synthetic_schema import UnsatisfiableError, write_instance
from sagemaker_vllm.emulator._synthetic_tools import wanted_calls, write_calls

Constraint = tuple[str, Any]
"""A kind of `structured_outputs`, or `text`, and its value."""

_OPENERS = ("You said", "I read", "Your message says", "This is what I got")
_ASKS_FOR_KEYS = re.compile(r"\b(?:keys?|fields?|propert)", re.IGNORECASE)
_QUOTED_KEY = re.compile(r"[\"'`](\w+)[\"'`]")
_LISTED_KEYS = re.compile(r"\bwith an? (\w+)(?:,? and an? (\w+))?", re.IGNORECASE)
_MAX_PHRASE = 400


def write_chat(
    request: Mapping[str, Any], talk: Conversation, constraint: Constraint, variant: int
) -> str:
    """Write the answer to a conversation: calls in their markup, JSON, or text.

    Args:
        request: The request, checked.
        talk: Its messages.
        constraint: What the answer must look like.
        variant: A number that stands for chance.
    """
    is_forced = request.get("tool_choice", "auto") != "auto"
    # vLLM lets calls stand beside a constraint only where xgrammar knows the constraint.
    can_call = is_forced or not is_beyond_xgrammar(constraint[1])
    if can_call and (calls := wanted_calls(request, talk)):
        return write_calls(calls)
    if (text := _constrained(constraint, talk.texts(), talk.question)) is not None:
        return text
    if talk.results:
        text = " ".join(f"The result of {name} is: {result}." for name, result in talk.results)
    else:
        text = f'{_opener(variant)}: "{_shorten(talk.question)}".'
    if talk.media:
        text += f" With it came {'; '.join(talk.media)}."
    return text


def write_text(prompt: str, constraint: Constraint, variant: int) -> str:
    """Write what follows a prompt of a text completion."""
    text = _constrained(constraint, [prompt], prompt)
    return f' {_opener(variant)}: "{_shorten(prompt)}".' if text is None else text


def write_reasoning(talk: Conversation) -> str:
    """Write what is thought before an answer."""
    return f'The user says "{_shorten(talk.question)}". I will answer that.'


def _opener(variant: int) -> str:
    return _OPENERS[variant % len(_OPENERS)] + " again" * (variant // len(_OPENERS) % 3)


def _shorten(text: str) -> str:
    """Keep the end of a long text, where the question is."""
    phrase = " ".join(text.split())
    return phrase if len(phrase) <= _MAX_PHRASE else f"...{phrase[-_MAX_PHRASE:]}"


def _constrained(constraint: Constraint, texts: Sequence[str], asked: str) -> str | None:
    evidence = Evidence(texts)
    kind, value = constraint
    quoted = _quoted_schema(texts)
    if kind == "text" and quoted and any("json" in text.lower() for text in texts):
        kind, value = "json", quoted
    match kind:
        case "json":
            return _write_json(value, evidence)
        case "json_object" if not quoted:
            keyless = Evidence([text.replace(asked, _QUOTED_KEY.sub("", asked)) for text in texts])
            return _write_json(_schema_of_keys(asked), keyless)
        case "json_object":
            return _write_json(quoted, evidence)
        case "choice":
            return str(evidence.literal(value, bool) or value[0])
        case "regex":
            whole = rf"\A(?:{value})\Z"
            found = evidence.take([value], lambda text: bool(text) and is_match(whole, text))
            return found or _first(text for text in samples(value) if is_match(whole, text))
        case "grammar":
            return _first(grammar_samples(value))
    return None


def _quoted_schema(texts: Sequence[str]) -> Any:
    schemas = [value for text in texts for value, *_ in json_objects(text)]
    return next((schema for schema in schemas if {"properties", "$ref"} & schema.keys()), None)


def _schema_of_keys(text: str) -> Any:
    """Make a schema of the keys that a prompt asks for ("with 'a' and 'b' keys")."""
    keys = _QUOTED_KEY.findall(text) if _ASKS_FOR_KEYS.search(text) else []
    if not keys and (match := _LISTED_KEYS.search(text)):
        keys = [key for key in match.groups() if key]
    names = dict.fromkeys(keys or ["answer"])
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def _write_json(schema: Any, evidence: Evidence) -> str:
    try:
        return json.dumps(write_instance(schema, evidence), ensure_ascii=False)
    except UnsatisfiableError:
        raise RefusedError("Grammar error: Unsatisfiable schema", is_late=True) from None


def _first(texts: Iterable[str]) -> str:
    for text in texts:
        return text
    problem = "the emulator's synthetic model found no text for this constraint"
    raise RefusedError(problem, status=501, is_late=True)
