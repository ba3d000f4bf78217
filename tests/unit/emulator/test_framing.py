"""The emulator's frames, read by botocore and compared with moto's."""

import json
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from moto.core.eventstream import EventStreamEncoder

from sagemaker_vllm.emulator._framing import encode_error, encode_exception, encode_part


def decode(frames: bytes) -> list[Any]:
    buffer = EventStreamBuffer()
    buffer.add_data(frames)
    return list(buffer)


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_botocore_reads_the_payloads_of_parts(payloads: list[bytes]) -> None:
    frames = b"".join(encode_part(payload) for payload in payloads)

    messages = decode(frames)

    assert [message.payload for message in messages] == payloads


def test_part_is_an_event_of_the_service_model() -> None:
    (message,) = decode(encode_part(b"x"))

    assert message.headers == {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }


def test_exception_carries_type_and_members() -> None:
    members = {"Message": "too slow: é", "ErrorCode": "ModelInvocationTimeExceeded"}

    (message,) = decode(encode_exception("ModelStreamError", members))

    assert message.headers[":message-type"] == "exception"
    assert message.headers[":exception-type"] == "ModelStreamError"
    assert json.loads(message.payload) == members


def test_error_message_carries_code_and_text_in_headers() -> None:
    (message,) = decode(encode_error("InternalFailure", "ouch: é"))

    assert message.to_response_dict()["status_code"] == 400
    assert message.headers[":error-code"] == "InternalFailure"
    assert message.headers[":error-message"] == "ouch: é"


@pytest.mark.parametrize("payload", [b"", b"data: x\n\n", bytes(range(256)) * 40])
def test_frames_are_byte_for_byte_those_of_moto(payload: bytes) -> None:
    headers = {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }

    assert encode_part(payload) == EventStreamEncoder().encode_message(headers, payload)
