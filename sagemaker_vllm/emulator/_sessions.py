"""Stateful sessions, as the hosting standards of vLLM's container keep them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import orjson

from sagemaker_vllm.emulator._container import Container, ContainerAnswer
from sagemaker_vllm.emulator._requests import RecordedRequest

_LIFETIME = timedelta(seconds=1200)
_HEADER = "X-Amzn-SageMaker-Session-Id"


class SessionContainer:
    """Keeps sessions in front of another container, or refuses them as a container does by default.

    `{"requestType": "NEW_SESSION"}` opens one and `{"requestType": "CLOSE"}` closes the one in the
    session header; every other request may name an open one. The header value `NEW_SESSION` on an
    ordinary request opens nothing.
    """

    def __init__(self, container: Container, *, is_enabled: bool) -> None:
        self._container = container
        self._is_enabled = is_enabled
        self._expiry: dict[str, datetime] = {}

    async def start(self) -> None:
        await self._container.start()

    async def stop(self) -> None:
        await self._container.stop()

    @asynccontextmanager
    async def answer(self, request: RecordedRequest) -> AsyncIterator[ContainerAnswer]:
        answer = self._manage(request)
        if answer is not None:
            yield answer
            return
        async with self._container.answer(request) as answer:
            yield answer

    def _manage(self, request: RecordedRequest) -> ContainerAnswer | None:
        """Answer what is about sessions; `None` for a request of the model's."""
        session_id = request.headers.get(_HEADER)
        body = _session_body(request.body)
        if not self._is_enabled and (session_id is not None or body is not None):
            return _bad_request(f"stateful sessions not enabled, {_HEADER} header not supported")
        match body:
            case None:
                return self._check(session_id)
            case {"requestType": "NEW_SESSION"} if len(body) == 1:
                return self._open()
            case {"requestType": "CLOSE"} if len(body) == 1:
                return self._close(session_id)
            case _:
                return _bad_request("a session request holds nothing but requestType")

    def _check(self, session_id: str | None) -> ContainerAnswer | None:
        if session_id in {None, "NEW_SESSION"} or self._is_open(session_id):
            return None
        return _bad_request(f"session not found: {session_id}")

    def _is_open(self, session_id: str | None) -> bool:
        expiry = self._expiry.get(session_id or "")
        return expiry is not None and expiry > datetime.now(UTC)

    def _open(self) -> ContainerAnswer:
        session_id = str(uuid.uuid4())
        self._expiry[session_id] = datetime.now(UTC) + _LIFETIME
        expires = self._expiry[session_id].strftime("%Y-%m-%dT%H:%M:%SZ")
        headers = {"X-Amzn-SageMaker-New-Session-Id": f"{session_id}; Expires={expires}"}
        return _text(f"Session {session_id} created", headers)

    def _close(self, session_id: str | None) -> ContainerAnswer:
        if session_id is None or not self._is_open(session_id):
            return _bad_request(f"session not found: {session_id}")
        del self._expiry[session_id]
        headers = {"X-Amzn-SageMaker-Closed-Session-Id": session_id}
        return _text(f"Session {session_id} closed", headers)


def _session_body(body: bytes) -> dict[str, object] | None:
    if b'"requestType"' not in body:
        return None
    try:
        request = orjson.loads(body)
    except ValueError:
        return None
    is_about_sessions = isinstance(request, dict) and "requestType" in request
    return request if is_about_sessions else None


def _text(text: str, headers: dict[str, str]) -> ContainerAnswer:
    return ContainerAnswer([text.encode()], content_type="text/plain", headers=headers)


def _bad_request(reason: str) -> ContainerAnswer:
    error = {
        "message": f"Invalid payload. {reason}",
        "type": "Bad Request",
        "param": None,
        "code": 400,
    }
    return ContainerAnswer([orjson.dumps({"error": error})], status=400)
