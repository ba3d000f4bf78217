"""One call in every way the core offers, so that one parametrised test can hold all to one rule."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from botocore.config import Config

from sagemaker_vllm import (
    AsyncSageMakerVLLMClient,
    Completion,
    EndpointConfig,
    InvocationOptions,
    SageMakerVLLMClient,
    chat_request,
    text_request,
)
from sagemaker_vllm._boto_session import make_session

KEYS: dict[str, Any] = {
    "aws_access_key_id": "made-up-id",
    "aws_secret_access_key": "made-up-secret",
}
QUESTION = chat_request([{"role": "user", "content": "Why?"}])
PROMPT = text_request("Once")

Mode = Literal["chat", "complete", "stream_chat", "stream_complete"]
PLAIN: tuple[Mode, ...] = ("chat", "complete")
STREAMED: tuple[Mode, ...] = ("stream_chat", "stream_complete")


def boto3_client(*, timeout: float = 70.0, region_name: str = "us-east-1", **keywords: Any) -> Any:
    """Make a client as a user would who brings his own: it finds the emulator by the environment."""
    settings = Config(
        connect_timeout=10,
        read_timeout=timeout,
        max_pool_connections=64,
        retries={"total_max_attempts": 1},
    )
    # A session of the user's own would parse all of botocore's data files, in every test.
    session = make_session(EndpointConfig(endpoint_name="any"))
    return session.client("sagemaker-runtime", config=settings, region_name=region_name, **keywords)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in another thread."""
    while not condition():  # noqa: ASYNC110  # which knows of no event
        await asyncio.sleep(0.005)


@dataclass(frozen=True)
class Caller:
    """Makes calls with one of the two clients, which may stand on a boto3 client of the user's."""

    is_async: bool
    owns_boto3: bool = True

    @property
    def name(self) -> str:
        """The parameter's id in test names."""
        kind = "async" if self.is_async else "sync"
        return kind if self.owns_boto3 else f"{kind}-given-boto3"

    def call(
        self,
        mode: Mode,
        *,
        request: dict[str, Any] | None = None,
        options: InvocationOptions | None = None,
        **settings: Any,
    ) -> Completion:
        """Make one call with a client of its own, read the answer to its end, close the client."""
        if request is None:
            request = QUESTION if mode.endswith("chat") else PROMPT
        if self.is_async:
            return asyncio.run(self._call_async(mode, request, options, settings))
        client = SageMakerVLLMClient(**self._with_boto3(settings))
        try:
            result = getattr(client, mode)(request, options=options)
            if isinstance(result, Completion):
                return result
            with result:
                for _ in result:
                    pass
            completion: Completion = result.completion
            return completion
        finally:
            client.close()
            self._close_given(client)

    async def _call_async(
        self,
        mode: Mode,
        request: dict[str, Any],
        options: InvocationOptions | None,
        settings: dict[str, Any],
    ) -> Completion:
        async with AsyncSageMakerVLLMClient(**self._with_boto3(settings)) as client:
            try:
                result = await getattr(client, mode)(request, options=options)
                if isinstance(result, Completion):
                    return result
                async with result:
                    async for _ in result:
                        pass
                completion: Completion = result.completion
                return completion
            finally:
                self._close_given(client)

    def _with_boto3(self, settings: dict[str, Any]) -> dict[str, Any]:
        if self.owns_boto3:
            return settings
        return settings | {"client": boto3_client(timeout=settings.get("timeout", 70.0))}

    def _close_given(self, client: Any) -> None:
        if not self.owns_boto3:
            client._given_client.close()


CALLERS = [
    Caller(is_async=False),
    Caller(is_async=True),
    Caller(is_async=False, owns_boto3=False),
    Caller(is_async=True, owns_boto3=False),
]


def run(
    caller: Caller,
    sync: Callable[[SageMakerVLLMClient], Any],
    asynchronous: Callable[[AsyncSageMakerVLLMClient], Awaitable[Any]],
    **settings: Any,
) -> Any:
    """Run one of two functions that do the same with the two clients."""

    async def run_async() -> Any:
        async with AsyncSageMakerVLLMClient(**caller._with_boto3(settings)) as client:
            try:
                return await asynchronous(client)
            finally:
                caller._close_given(client)

    if caller.is_async:
        return asyncio.run(run_async())
    client = SageMakerVLLMClient(**caller._with_boto3(settings))
    try:
        return sync(client)
    finally:
        client.close()
        caller._close_given(client)
