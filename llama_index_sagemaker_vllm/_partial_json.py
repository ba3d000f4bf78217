"""What can be read of a JSON object while its text grows (pure)."""

import re
from typing import Any

from llama_index.core.bridge.pydantic import TypeAdapter, ValidationError

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
# A number at the end of growing text may go on.
_OPEN_NUMBER = re.compile(r"(?<=[\[,:\s])-?\d[\d.eE+-]*$")


def read_partial_object(text: str) -> dict[str, Any] | None:
    """Read the object that begins in `text`; what is not there yet is left out.

    Nothing is made up: an open string is read as far as it goes, an open number, name or word is
    left out. `None` when no object begins, or when it is broken.
    """
    start = text.find("{")
    if start < 0:
        return None
    try:
        found = _ANYTHING.validate_json(
            _OPEN_NUMBER.sub("", text[start:]), experimental_allow_partial="trailing-strings"
        )
    except ValidationError:
        return None
    return found if isinstance(found, dict) else None
