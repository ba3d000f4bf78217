"""How vLLM says no."""

from typing import Any

_TYPES = {500: "InternalServerError", 501: "NotImplementedError"}


class RefusedError(Exception):
    """A request that vLLM answers with an error.

    Args:
        message: vLLM's sentence.
        param: The field that vLLM blames, rightly or not; its sentence then ends with it.
        value: The field's value, which vLLM repeats too where it is given.
        status: HTTP status.
        kind: Error type; default by status.
        is_late: Whether vLLM sees it only after it has begun to answer: a stream then has status
            200 and the error as its only event.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *value: Any,
        status: int = 400,
        kind: str | None = None,
        is_late: bool = False,
    ) -> None:
        if param is not None:
            message += f" (parameter={param}{''.join(f', value={item}' for item in value)})"
        super().__init__(message)
        self.status = status
        self.is_late = is_late
        kind = kind or _TYPES.get(status, "BadRequestError")
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
