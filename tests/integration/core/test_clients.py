"""Both clients, as a user of the core holds them."""

from collections.abc import Callable

from sagemaker_vllm import AsyncSageMakerVLLMClient, SageMakerVLLMClient, chat_request
from sagemaker_vllm.emulator import Emulator, Reply

REQUEST = chat_request([{"role": "user", "content": "Hi"}])


def test_client_is_closed_at_the_end_of_its_block_and_connects_again(
    start_emulator: Callable[..., Emulator],
) -> None:
    start_emulator([Reply("one"), Reply("two")])

    with SageMakerVLLMClient() as client:
        first = client.chat(REQUEST).text
    second = client.chat(REQUEST).text
    client.close()

    assert (first, second) == ("one", "two")


async def test_async_client_is_closed_at_the_end_of_its_block_and_connects_again(
    start_emulator: Callable[..., Emulator],
) -> None:
    start_emulator([Reply("one"), Reply("two")])

    async with AsyncSageMakerVLLMClient() as client:
        first = (await client.chat(REQUEST)).text
    second = (await client.chat(REQUEST)).text
    await client.aclose()

    assert (first, second) == ("one", "two")
