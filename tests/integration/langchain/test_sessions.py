"""Stateful sessions and asynchronous inference through LangChain's models."""

import copy
import pickle
from datetime import datetime
from typing import Any

import pytest

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm.emulator import Reply
from tests.integration.langchain.conftest import StartEmulator, Way

HEADER = "X-Amzn-SageMaker-Session-Id"


@pytest.mark.parametrize("cls", [ChatSageMakerVLLM, SageMakerVLLM])
async def test_every_call_of_a_session_carries_its_id(
    way: Way, start_emulator: StartEmulator, cls: Any
) -> None:
    emulator = start_emulator([Reply("a"), Reply("b")], sessions=True)
    model = cls()

    if way.is_async:
        async with model.asession() as inside:
            await way.items(inside)
    else:
        with model.session() as inside:
            await way.items(inside)
    await way.items(model)

    begin, call, end, later = emulator.requests
    assert begin.json == {"requestType": "NEW_SESSION"}
    assert call.headers[HEADER] == end.headers[HEADER] == inside.session_id
    assert end.json == {"requestType": "CLOSE"}
    assert HEADER not in later.headers
    assert isinstance(inside.session_expires, datetime)
    assert model.session_expires is None


def test_copies_of_a_session_know_when_it_ends(start_emulator: StartEmulator) -> None:
    start_emulator([], sessions=True)

    with ChatSageMakerVLLM().session() as inside:
        pickled = pickle.loads(pickle.dumps(inside))  # noqa: S301  # our own bytes
        for other in (copy.deepcopy(inside), pickled):
            assert other.session_id == inside.session_id
            assert other.session_expires == inside.session_expires
