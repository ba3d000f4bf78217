"""`SageMakerVLLM` fulfils the contract; `OpenAILike` on the same server, where it does not.

Both talk to one OpenAI-style server: ours through the emulator, `OpenAILike` straight. What
`OpenAILike` does otherwise is written down in `DIFFERENCES` and in docs/llama-index.md.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from llama_index.llms.openai_like import OpenAILike

from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm.emulator import SyntheticModel
from tests.integration.llama_index.contract import LLMContract
from tests.integration.llama_index.openai_server import openai_server
from tests.integration.llama_index.ways import WAYS

DOCS = Path(__file__).parents[3] / "docs" / "llama-index.md"

STREAMS = ("stream", "async stream")
PLAIN = ("plain", "async plain")


class Difference(NamedTuple):
    """What `OpenAILike` does otherwise: where it shows, in which ways, and the docs' sentence."""

    tests: tuple[str, ...]
    ways: tuple[str, ...]
    sentence: str


DIFFERENCES = (
    Difference(
        (
            "test_every_way_gives_the_same_answer",
            "test_token_counts_are_on_the_last_response",
            "test_usage_is_in_raw",
            "test_token_counter_counts_as_the_server_does",
        ),
        STREAMS,
        "Streams ask for no usage, so they have no token counts",
    ),
    Difference(
        ("test_choice_of_an_unknown_tool_is_refused",),
        WAYS,
        "A choice of an unknown tool is sent, and the server refuses it",
    ),
    Difference(
        ("test_history_of_the_caller_is_left_as_it_is",),
        WAYS,
        "`chat_with_tools` appends the user message to the caller's `chat_history`",
    ),
    Difference(
        ("test_keywords_of_the_caller_are_left_as_they_are",),
        WAYS,
        "Structured prediction writes into the caller's `llm_kwargs`",
    ),
    Difference(
        ("test_structured_prediction_is_announced",),
        PLAIN,
        "Structured prediction by schema fires no `LLMStructuredPredict` events",
    ),
    Difference(
        ("test_partial_objects_only_grow",),
        STREAMS,
        "Partial objects show defaults that the next piece replaces",
    ),
    Difference(
        ("test_structured_answer_that_is_cut_raises",),
        WAYS,
        "A structured answer that was cut is a parsing error without its text, in streams none",
    ),
    Difference(
        ("test_class_that_is_no_pydantic_class_is_refused",),
        WAYS,
        "An output class that is no Pydantic class is a `TypeError` of OpenAI's SDK",
    ),
    Difference(
        (
            "test_block_that_the_server_cannot_take_is_refused_by_name",
            "test_plain_text_document_is_read",
        ),
        WAYS,
        "Documents are sent as file parts, which vLLM refuses",
    ),
    Difference(
        ("test_pickled_and_copied_models_answer_alike",),
        (),
        "A model that has been called cannot be deep-copied",
    ),
    Difference(
        ("test_metadata_says_what_the_model_can_do",),
        (),
        "Without `max_tokens` prompts are packed as if the answer took no room",
    ),
)


def difference(test: str, way: str | None) -> Difference | None:
    return next((d for d in DIFFERENCES if test in d.tests and (not way or way in d.ways)), None)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with openai_server(SyntheticModel()) as url:
        yield url


class TestSageMakerVLLM(LLMContract):
    @pytest.fixture
    def llm(
        self, upstream: str, start_emulator: Callable[..., Any], runner: asyncio.Runner
    ) -> Iterator[SageMakerVLLM]:
        start_emulator(upstream=upstream, part_size=11)
        llm = SageMakerVLLM(context_window=32_768)
        yield llm
        llm.close()
        runner.run(llm.aclose())


class TestOpenAILike(LLMContract):
    @pytest.fixture
    def llm(
        self, upstream: str, request: pytest.FixtureRequest, runner: asyncio.Runner
    ) -> Iterator[OpenAILike]:
        way = request.getfixturevalue("way") if "way" in request.fixturenames else None
        if found := difference(request.function.__name__, way):
            request.applymarker(pytest.mark.xfail(strict=True, reason=found.sentence))
        llm = OpenAILike(
            model="/opt/ml/model",
            api_base=f"{upstream}/v1",
            api_key="none",
            max_retries=0,
            context_window=32_768,
            is_chat_model=True,
            is_function_calling_model=True,
            should_use_structured_outputs=True,
        )
        yield llm
        llm._get_client().close()
        runner.run(llm._get_aclient().close())


@pytest.mark.parametrize("sentence", [each.sentence for each in DIFFERENCES])
def test_difference_is_documented(sentence: str) -> None:
    assert sentence in DOCS.read_text(encoding="utf-8")
