"""Many records at once: asynchronous structured output, with the ones that fail beside the others.

python examples/langchain_batch.py        the endpoint of the environment's SAGEMAKER_ENDPOINT_NAME
"""

import asyncio
from typing import Literal

from pydantic import BaseModel

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from sagemaker_vllm import SageMakerVLLMError

REVIEWS = (
    "The hotel was quiet and the breakfast was good.",
    "Never again: the room smelled of smoke.",
    "Fine for one night, nothing more.",
)


class Verdict(BaseModel):
    """What a review says."""

    mood: Literal["good", "bad", "mixed"]
    reason: str


async def main() -> None:
    """Read all reviews, at most eight at a time."""
    model = ChatSageMakerVLLM(temperature=0, max_tokens=64, max_retries=4)
    reader = model.with_structured_output(Verdict)
    verdicts = await reader.abatch(
        [f"What does this review say? {review}" for review in REVIEWS],
        {"max_concurrency": 8},
        return_exceptions=True,
    )
    for review, verdict in zip(REVIEWS, verdicts, strict=True):
        print(f"{review}\n    {outcome(verdict)}")


def outcome(verdict: Verdict | BaseException) -> str:
    """Say in one line what came of a review."""
    if isinstance(verdict, Verdict):
        return f"{verdict.mood}: {verdict.reason}"
    if isinstance(verdict, SageMakerVLLMError):
        return f"failed: {verdict.message}"
    raise verdict


if __name__ == "__main__":
    asyncio.run(main())
