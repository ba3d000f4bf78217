"""Writes a container's answer as an AWS event stream over chunked HTTP, faults included."""

import asyncio
from collections.abc import Mapping

from aiohttp import web

from sagemaker_vllm.emulator._container import ContainerAnswer
from sagemaker_vllm.emulator._faults import ContainerDiedError
from sagemaker_vllm.emulator._framing import (
    CONTENT_TYPE,
    encode_error,
    encode_exception,
    encode_part,
)
from sagemaker_vllm.emulator._parts import Splitter
from sagemaker_vllm.emulator._replies import (
    Cut,
    ErrorMessageFault,
    Hang,
    InternalStreamFault,
    ModelStreamFault,
    StreamEnd,
)

_TIMED_OUT = ModelStreamFault(
    "ModelInvocationTimeExceeded",
    "The model container did not complete sending the inference response in the allotted time.",
)


async def write_event_stream(
    request: web.BaseRequest,
    answer: ContainerAnswer,
    headers: Mapping[str, str],
    splitter: Splitter | None,
) -> web.StreamResponse:
    """Write the answer as it comes; cancelled by the server when the client leaves."""
    kind = {"Content-Type": CONTENT_TYPE, "X-Amzn-SageMaker-Content-Type": answer.content_type}
    response = web.StreamResponse(headers={**headers, **kind})
    response.enable_chunked_encoding()
    await response.prepare(request)
    end = answer.end
    try:
        async for parts in answer.paced_parts(answer.splitter or splitter):
            await response.write(b"".join(map(encode_part, parts)))
    except ContainerDiedError:
        end = ModelStreamFault()
    await _write_end(request, response, end)
    return response


async def _write_end(
    request: web.BaseRequest,
    response: web.StreamResponse,
    end: StreamEnd | None,
) -> None:
    match end:
        case ModelStreamFault(code, message):
            members = {"Message": message, "ErrorCode": code}
            await response.write(encode_exception("ModelStreamError", members))
        case InternalStreamFault(message):
            await response.write(encode_exception("InternalStreamFailure", {"Message": message}))
        case ErrorMessageFault(code, message):
            await response.write(encode_error(code, message))
        case Cut("frame"):
            frame = encode_part(b"the end of this frame never comes")
            await response.write(frame[: len(frame) // 2])
        case Cut("connection"):
            hang_up(request)
        case Hang(seconds):
            await asyncio.sleep(seconds)
            await _write_end(request, response, _TIMED_OUT)


def hang_up(request: web.BaseRequest) -> None:
    """Close the connection inside the HTTP body, after what was written."""
    if request.transport is not None:
        request.transport.close()
