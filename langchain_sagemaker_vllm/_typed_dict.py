"""TypedDicts → JSON schema, in LangChain's convention: `Annotated[type, default, description]`.

langchain-core's own conversion goes through Pydantic 1 and knows neither `NotRequired` nor
`total=False`; Pydantic 2 takes only `typing_extensions`' TypedDicts before Python 3.12.
"""

import types
import typing
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from pydantic import Field, TypeAdapter
from typing_extensions import is_typeddict


def typed_dict_schema(cls: type) -> dict[str, Any]:
    """Return the JSON schema of a TypedDict.

    Args:
        cls: The TypedDict; those inside it are converted too.
    """
    return TypeAdapter(_rebuilt(cls, {})).json_schema()


def _rebuilt(kind: Any, made: dict[Any, Any]) -> Any:
    """Return a type with every TypedDict inside it in the form that Pydantic takes."""
    if is_typeddict(kind):
        if kind not in made:
            made[kind] = kind
            made[kind] = _typed_dict(kind, made)
        return made[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is None or origin is typing.Literal or not arguments:
        return kind
    if origin is Annotated:
        return Annotated[_rebuilt(arguments[0], made), *kind.__metadata__]
    rebuilt = tuple(_rebuilt(each, made) for each in arguments)
    if rebuilt == arguments:
        return kind
    if origin in (Union, types.UnionType):
        return Union[rebuilt]  # noqa: UP007  # there is no other way from a tuple
    return origin[rebuilt]


def _typed_dict(cls: Any, made: dict[Any, Any]) -> Any:
    fields = {
        name: _field(hint, made, total=name in cls.__required_keys__)
        for name, hint in get_type_hints(cls, include_extras=True).items()
    }
    # Typed as a constructor of static types, which this is not.
    make: Any = typing_extensions.TypedDict
    rebuilt = make(cls.__name__, fields)
    rebuilt.__doc__ = cls.__doc__
    return rebuilt


def _field(hint: Any, made: dict[Any, Any], *, total: bool) -> Any:
    while get_origin(hint) in (Required, NotRequired):
        total, hint = get_origin(hint) is Required, get_args(hint)[0]
    described: dict[str, Any] = {}
    if get_origin(hint) is Annotated:
        hint, default, *others = get_args(hint)
        described = {"description": next((each for each in others if isinstance(each, str)), None)}
        if default is not ...:
            total, described["json_schema_extra"] = False, {"default": default}
    hint = Annotated[_rebuilt(hint, made), Field(**described)]
    return hint if total else NotRequired[hint]
