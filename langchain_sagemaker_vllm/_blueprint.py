"""Models of LangChain made without validation, where what they hold is right by its making.

Validating a piece of a stream takes longer than all else that is done with it here.
"""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel

_Model = TypeVar("_Model", bound=BaseModel)
_new = object.__new__


class Blueprint(Generic[_Model]):
    """Makes models as pickle restores them, over what validation made of an example."""

    def __init__(self, example: _Model) -> None:
        """Take the defaults of every field from a validated example."""
        self._kind = type(example)
        self._state = example.__getstate__()
        self._fields = self._state["__dict__"]
        self._keeps_extra = self._state["__pydantic_extra__"] is not None

    def make(self, **own: Any) -> _Model:
        """Return a model with `own` fields: at least every one that can change in place."""
        made = _new(self._kind)
        made.__setstate__(
            {
                **self._state,
                "__dict__": {**self._fields, **own},
                "__pydantic_fields_set__": set(own),
                "__pydantic_extra__": {} if self._keeps_extra else None,
            }
        )
        return made
