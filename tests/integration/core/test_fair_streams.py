"""A stream that has much to read leaves the event loop to others in between."""

import asyncio
from collections.abc import Callable

from sagemaker_vllm import AsyncSageMakerVLLMClient, chat_request
from sagemaker_vllm.emulator import Emulator, Reply

TOKENS = 2000


async def test_other_tasks_run_while_a_stream_has_much_to_read(
    start_emulator: Callable[..., Emulator],
) -> None:
    start_emulator([Reply("word " * TOKENS)])
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with (
        AsyncSageMakerVLLMClient() as client,
        await client.stream_chat(chat_request([{"role": "user", "content": "?"}])) as stream,
    ):
        # Everything has come before the first chunk is asked for.
        await asyncio.sleep(0.2)
        task = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        turns = 0
        chunks = [chunk async for chunk in stream]
        task.cancel()

    assert len(chunks) > TOKENS
    assert turns > TOKENS / 10
