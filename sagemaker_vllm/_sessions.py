"""Stateful sessions: what opens and closes one (pure).

The request's body is what vLLM's container goes by; the header is for SageMaker, which sends every
later call of the session to the same instance.
"""

from dataclasses import dataclass
from datetime import datetime

from sagemaker_vllm._config import InvocationOptions
from sagemaker_vllm._errors import InvalidRequestError
from sagemaker_vllm._operations import NEW_SESSION
from sagemaker_vllm._results import InvocationMetadata

OPENING = b'{"requestType":"NEW_SESSION"}'
CLOSING = b'{"requestType":"CLOSE"}'
_CURE = (
    "Stateful sessions need vLLM 0.11.1 or newer, with SAGEMAKER_ENABLE_STATEFUL_SESSIONS=true in "
    "the container's environment."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSession:
    """A session that a container keeps.

    Attributes:
        session_id: Its id.
        expires: When it ends by itself; `None` when the container does not say.
        options: Options that send a call into it.
    """

    session_id: str
    expires: datetime | None
    options: InvocationOptions


def opening_options(options: InvocationOptions | None) -> InvocationOptions:
    """Return the options that open a session where `options` lead."""
    return (options or InvocationOptions()).merged(InvocationOptions(session_id=NEW_SESSION))


def opened(options: InvocationOptions, metadata: InvocationMetadata) -> StatefulSession:
    """Read the answer to the opening.

    Raises:
        InvalidRequestError: The container made no session.
    """
    session_id = metadata.new_session_id
    if session_id is None:
        message = (
            f"The container behind endpoint {metadata.endpoint_name!r} answered, but made no "
            f"session. {_CURE}"
        )
        raise InvalidRequestError(
            message, endpoint_name=metadata.endpoint_name, request_id=metadata.request_id
        )
    try:
        expires = datetime.fromisoformat(metadata.session_expires or "")
    except ValueError:
        expires = None
    return StatefulSession(
        session_id=session_id,
        expires=expires,
        options=options.merged(InvocationOptions(session_id=session_id)),
    )


def explain(error: InvalidRequestError) -> None:
    """Add to a refused opening what sessions need."""
    error.message = f"{error.message} {_CURE}"
    error.args = (error.message,)
