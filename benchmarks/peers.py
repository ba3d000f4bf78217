"""Calls through what people use today, and through bare transports: the least that a call needs."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import boto3
import orjson
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from benchmarks.ours import QUESTION, AsyncCall, Call

_WIRE = [{"role": "user", "content": QUESTION}]
_RESULT = ChatResult(generations=[ChatGeneration(message=AIMessage("Hello"))])
_BODY = {"model": "/opt/ml/model", "messages": _WIRE}
_STREAM = {**_BODY, "stream": True, "stream_options": {"include_usage": True}}


def _url(script: str, operation: str) -> str:
    base = os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"]
    return f"{base}/endpoints/{script}/{operation}"


def _boto3_client() -> Any:
    settings = Config(max_pool_connections=64, retries={"total_max_attempts": 1})
    return boto3.client("sagemaker-runtime", config=settings)


def boto3_plain(script: str) -> Call:
    client = _boto3_client()

    def call() -> int:
        body = orjson.dumps(_BODY)
        output = client.invoke_endpoint(
            EndpointName=script, ContentType="application/json", Body=body
        )
        answer = orjson.loads(output["Body"].read())
        assert answer["choices"][0]["message"]["content"]
        return 1

    return call


def boto3_image(url: str) -> Callable[[str], Call]:
    part = {"type": "image_url", "image_url": {"url": url}}

    def factory(script: str) -> Call:
        client = _boto3_client()

        def call() -> int:
            body = orjson.dumps({**_BODY, "messages": [{"role": "user", "content": [part]}]})
            output = client.invoke_endpoint(
                EndpointName=script, ContentType="application/json", Body=body
            )
            return bool(orjson.loads(output["Body"].read()))

        return call

    return factory


def boto3_stream(script: str) -> Call:
    """A bare loop that makes one `AIMessageChunk` of every event."""
    client = _boto3_client()

    def call() -> int:
        output = client.invoke_endpoint_with_response_stream(
            EndpointName=script, ContentType="application/json", Body=orjson.dumps(_STREAM)
        )
        count, rest = 0, b""
        for event in output["Body"]:
            *whole, rest = (rest + event["PayloadPart"]["Bytes"]).split(b"\n\n")
            for line in whole:
                if line[6:] == b"[DONE]":
                    continue
                for choice in orjson.loads(line[6:])["choices"]:
                    AIMessageChunk(content=choice["delta"].get("content") or "")
                    count += 1
        return count

    return call


class _Least(BaseChatModel):
    """What LangChain itself adds to a call, whatever model it is."""

    call: Any

    @property
    def _llm_type(self) -> str:
        return "least"

    def _generate(self, *_arguments: Any, **_keywords: Any) -> ChatResult:
        self.call()
        return _RESULT

    async def _agenerate(self, *_arguments: Any, **_keywords: Any) -> ChatResult:
        await self.call()
        return _RESULT


def least_langchain(script: str) -> Call:
    chat = _Least(call=boto3_plain(script))

    def call() -> int:
        assert chat.invoke(QUESTION).text
        return 1

    return call


def least_async_langchain(script: str) -> AsyncCall:
    chat = _Least(call=aiohttp_plain(script))

    async def call() -> int:
        assert (await chat.ainvoke(QUESTION)).text
        return 1

    return call


class _Signed:
    """One aiohttp session whose requests are signed by botocore: the least async client."""

    def __init__(self, script: str, operation: str, body: dict[str, Any]) -> None:
        self._url = _url(script, operation)
        self._body = body
        self._session: aiohttp.ClientSession | None = None
        key, secret = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        self._credentials = Credentials(key, secret)

    def post(self) -> Any:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=1024)
            self._session = aiohttp.ClientSession(connector=connector)
        body = orjson.dumps(self._body)
        headers = {"Content-Type": "application/json"}
        request = AWSRequest("POST", self._url, headers, body)
        SigV4Auth(self._credentials, "sagemaker", "us-east-1").add_auth(request)
        return self._session.post(self._url, data=body, headers=dict(request.headers.items()))


def aiohttp_plain(script: str) -> AsyncCall:
    signed = _Signed(script, "invocations", _BODY)

    async def call() -> int:
        async with signed.post() as response:
            answer = orjson.loads(await response.read())
        assert answer["choices"][0]["message"]["content"]
        return 1

    return call


def aiohttp_stream(script: str) -> AsyncCall:
    """The bare loop over aiohttp, with botocore's decoder of event-stream frames."""
    signed = _Signed(script, "invocations-response-stream", _STREAM)

    async def call() -> int:
        count, rest, frames = 0, b"", EventStreamBuffer()
        async with signed.post() as response:
            async for read in response.content.iter_any():
                frames.add_data(read)
                for frame in frames:
                    *whole, rest = (rest + frame.payload).split(b"\n\n")
                    for line in whole:
                        if line[6:] != b"[DONE]":
                            count += len(orjson.loads(line[6:])["choices"])
        return count

    return call


def _litellm(script: str, *, stream: bool) -> dict[str, Any]:
    operation = "invocations-response-stream" if stream else "invocations"
    return {
        "model": f"sagemaker_chat/{script}",
        "messages": _WIRE,
        "stream": stream,
        "sagemaker_base_url": _url(script, operation),
        "aws_region_name": "us-east-1",
    }


def litellm_plain(script: str) -> Call:
    import litellm

    keywords = _litellm(script, stream=False)

    def call() -> int:
        assert litellm.completion(**keywords).choices[0].message.content
        return 1

    return call


def litellm_aplain(script: str) -> AsyncCall:
    import litellm

    keywords = _litellm(script, stream=False)

    async def call() -> int:
        assert (await litellm.acompletion(**keywords)).choices[0].message.content
        return 1

    return call


def litellm_stream(script: str) -> Call:
    import litellm

    keywords = _litellm(script, stream=True)
    return lambda: sum(1 for _ in litellm.completion(**keywords))


def litellm_astream(script: str) -> AsyncCall:
    import litellm

    keywords = _litellm(script, stream=True)

    async def call() -> int:
        return sum([1 async for _ in await litellm.acompletion(**keywords)])

    return call


def _openai(script: str) -> BaseChatModel:
    from langchain_openai import ChatOpenAI

    base = os.environ["AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME"]
    return ChatOpenAI(base_url=f"{base}/{script}/v1", api_key="none", model="m", max_retries=0)


def openai_invoke(script: str) -> Call:
    chat = _openai(script)

    def call() -> int:
        assert chat.invoke(QUESTION).text
        return 1

    return call


def openai_ainvoke(script: str) -> AsyncCall:
    chat = _openai(script)

    async def call() -> int:
        assert (await chat.ainvoke(QUESTION)).text
        return 1

    return call


def openai_stream(script: str) -> Call:
    chat = _openai(script)
    return lambda: sum(1 for _ in chat.stream(QUESTION))


def openai_astream(script: str) -> AsyncCall:
    chat = _openai(script)

    async def call() -> int:
        return sum([1 async for _ in chat.astream(QUESTION)])

    return call


def _langchain_aws(script: str, **settings: Any) -> BaseChatModel:
    from langchain_aws.chat_models.sagemaker_endpoint import (
        ChatModelContentHandler,
        ChatSagemakerEndpoint,
    )

    class Handler(ChatModelContentHandler):
        """The content handler that a user of langchain-aws writes."""

        content_type = accepts = "application/json"

        def transform_input(self, prompt: Any, model_kwargs: dict[str, Any]) -> bytes:
            return json.dumps({**_BODY, "messages": prompt, **model_kwargs}).encode()

        def transform_output(self, output: Any) -> BaseMessage:
            if not isinstance(output, bytes):
                answer = json.loads(output.read())
                return AIMessageChunk(content=answer["choices"][0]["message"]["content"])
            if not output.startswith(b"data: {"):
                return AIMessageChunk(content="")
            choices = json.loads(output[6:])["choices"]
            text = choices[0]["delta"].get("content") if choices else None
            return AIMessageChunk(content=text or "")

    return ChatSagemakerEndpoint(
        endpoint_name=script, client=_boto3_client(), content_handler=Handler(), **settings
    )


def langchain_aws_invoke(script: str) -> Call:
    chat = _langchain_aws(script)

    def call() -> int:
        assert chat.invoke(QUESTION).text
        return 1

    return call


def langchain_aws_stream(script: str) -> Call:
    chat = _langchain_aws(script, model_kwargs={"stream": True})
    return lambda: sum(1 for _ in chat.stream(QUESTION))


def boto3_first(script: str) -> Callable[[], float]:
    """Return a call that gives the seconds to the first event, and reads the rest."""
    client = _boto3_client()

    def call() -> float:
        began = time.perf_counter()
        output = client.invoke_endpoint_with_response_stream(
            EndpointName=script, ContentType="application/json", Body=orjson.dumps(_STREAM)
        )
        events = iter(output["Body"])
        orjson.loads(next(events)["PayloadPart"]["Bytes"][6:])
        elapsed = time.perf_counter() - began
        for _ in events:
            pass
        return elapsed

    return call
