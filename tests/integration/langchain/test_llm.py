"""The text-completion model: many prompts a request, samples, streams, failures."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from langchain_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import (
    ConfigurationError,
    InvalidRequestError,
    SageMakerVLLMError,
    ServerError,
    StreamInterruptedError,
)
from sagemaker_vllm.emulator import (
    AnyReply,
    ContainerFault,
    Cut,
    JSONReply,
    RecordedRequest,
    Reply,
    StreamReply,
)
from tests.integration.langchain.conftest import DONE, StartEmulator, Way, data

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
Generate = Callable[..., Any]


@pytest.fixture(params=["generate", "agenerate"])
def generate(request: pytest.FixtureRequest) -> Generate:
    """Complete prompts, sync or async."""

    async def run(model: SageMakerVLLM, *arguments: Any, **keywords: Any) -> LLMResult:
        if request.param == "agenerate":
            return await model.agenerate(*arguments, **keywords)
        return model.generate(*arguments, **keywords)

    return run


def echo(request: RecordedRequest) -> AnyReply:
    """Answer each prompt with itself, each sample with its number."""
    prompts, samples = request.json["prompt"], request.json.get("n", 1)
    texts = [prompts] if isinstance(prompts, str) else prompts
    choices = [Reply(f"{text}/{sample}") for text in texts for sample in range(samples)]
    count = len(texts)
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 2 * count}
    return Reply(choices=choices, usage=usage)


def texts(result: LLMResult) -> list[list[str]]:
    """Return the texts of every prompt."""
    return [[generation.text for generation in each] for each in result.generations]


async def test_many_prompts_go_in_one_request(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator(echo)

    result = await generate(SageMakerVLLM(temperature=0), ["a", "b", "c"])

    assert texts(result) == [["a/0"], ["b/0"], ["c/0"]]
    assert [request.json for request in emulator.requests] == [
        {"model": "/opt/ml/model", "prompt": ["a", "b", "c"], "temperature": 0.0}
    ]
    assert result.llm_output == {
        "token_usage": {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6},
        "model_name": "/opt/ml/model",
    }


@pytest.mark.parametrize("streaming", [True, False])
async def test_samples_belong_to_their_prompt(
    generate: Generate, start_emulator: StartEmulator, streaming: bool
) -> None:
    start_emulator(echo)

    result = await generate(SageMakerVLLM(n=2, streaming=streaming), ["a", "b"])

    assert texts(result) == [["a/0", "a/1"], ["b/0", "b/1"]]


async def test_choices_in_any_order_find_their_prompt(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    choices = [
        {"index": index, "text": text, "finish_reason": "stop"}
        for index, text in ((3, "b1"), (0, "a0"), (2, "b0"), (1, "a1"))
    ]
    start_emulator([JSONReply({"choices": choices})])

    result = await generate(SageMakerVLLM(n=2), ["a", "b"])

    assert texts(result) == [["a0", "a1"], ["b0", "b1"]]


async def test_interleaved_choices_of_a_stream_find_their_prompt(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    pieces = [(1, "b"), (0, "a"), (1, "2"), (0, "1")]
    events = [
        data({"choices": [{"index": at, "text": text, "finish_reason": None}]})
        for at, text in pieces
    ]
    ends = [
        data({"choices": [{"index": at, "text": "", "finish_reason": "stop"}]}) for at in (0, 1)
    ]
    start_emulator([StreamReply([*events, *ends, DONE])])

    result = await generate(SageMakerVLLM(streaming=True), ["x", "y"])

    assert texts(result) == [["a1"], ["b2"]]


async def test_too_many_prompts_are_split_over_requests(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator(echo)
    prompts = [str(number) for number in range(300)]

    result = await generate(SageMakerVLLM(), prompts)

    assert texts(result) == [[f"{prompt}/0"] for prompt in prompts]
    assert sorted(len(request.json["prompt"]) for request in emulator.requests) == [44, 128, 128]
    assert result.llm_output["token_usage"]["total_tokens"] == 600


async def test_a_failed_request_of_several_loses_nothing(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    start_emulator(
        lambda request: (
            ContainerFault(400, "bad prompt") if "2" in request.json["prompt"] else echo(request)
        )
    )
    model = SageMakerVLLM(max_prompts_per_request=2, n=2)

    with pytest.raises(InvalidRequestError, match="bad prompt") as caught:
        await generate(model, ["0", "1", "2", "3", "4"])

    partial: Any = caught.value.partial
    assert [(choice["index"], choice["text"]) for choice in partial.response["choices"]] == [
        (0, "0/0"),
        (1, "0/1"),
        (2, "1/0"),
        (3, "1/1"),
        (8, "4/0"),
        (9, "4/1"),
    ]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_batch_keeps_what_did_not_fail(
    start_emulator: StartEmulator, is_async: bool
) -> None:
    start_emulator(
        lambda request: (
            ContainerFault(400, "bad prompt") if "2" in request.json["prompt"] else echo(request)
        )
    )
    model = SageMakerVLLM(max_prompts_per_request=2)
    prompts: Any = ["0", "1", "2", "3", "4"]

    found: list[Any] = (
        await model.abatch(prompts, return_exceptions=True)
        if is_async
        else model.batch(prompts, return_exceptions=True)
    )

    assert [found[0], found[1], found[4]] == ["0/0", "1/0", "4/0"]
    assert all(isinstance(each, InvalidRequestError) for each in found[2:4])


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_batch_is_one_request(start_emulator: StartEmulator, is_async: bool) -> None:
    emulator = start_emulator(echo)
    model = SageMakerVLLM()
    prompts: Any = ["a", "b"]

    found = await model.abatch(prompts) if is_async else model.batch(prompts)

    assert found == ["a/0", "b/0"]
    assert len(emulator.requests) == 1


async def test_a_batch_of_little_concurrency_is_cut_as_asked(
    start_emulator: StartEmulator,
) -> None:
    emulator = start_emulator(echo)
    prompts: Any = ["a", "b", "c"]

    found = SageMakerVLLM(max_prompts_per_request=2).batch(
        prompts, {"max_concurrency": 1}, return_exceptions=True
    )

    assert found == ["a/0", "b/0", "c/0"]
    assert [request.json["prompt"] for request in emulator.requests] == ["a", "b", "c"]


async def test_one_prompt_is_the_same_in_every_way(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply(chunks=["Hel", "lo"], usage=USAGE)])

    items = await way.items(SageMakerVLLM(temperature=0.5), "Say hello")

    assert "".join(items) == "Hello"
    body = emulator.requests[0].json
    assert body.pop("stream", False) is way.is_stream
    assert body.pop("stream_options", None) == ({"include_usage": True} if way.is_stream else None)
    assert body == {"model": "/opt/ml/model", "prompt": "Say hello", "temperature": 0.5}


class Results(BaseCallbackHandler):
    """Keeps what callbacks are told."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.results: list[LLMResult] = []

    def on_llm_new_token(self, token: Any, **_: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        self.results.append(response)


async def test_metadata_is_the_same_in_every_way(way: Way, start_emulator: StartEmulator) -> None:
    start_emulator([Reply(chunks=["Hel", "lo"], usage=USAGE, stop_reason="X")])
    handler = Results()

    await way.items(SageMakerVLLM(callbacks=[handler]), "Say hello")

    info: Any = handler.results[0].generations[0][0].generation_info
    found = {k: v for k, v in info.items() if k not in ("id", "created", "request_id")}
    assert found == {
        "model_provider": "sagemaker_vllm",
        "model_name": "/opt/ml/model",
        "token_usage": USAGE,
        "finish_reason": "stop",
        "stop_reason": "X",
        "endpoint_name": "emulated",
        "invoked_production_variant": "AllTraffic",
        "system_fingerprint": "vllm-0.32.0-emulated",
    }
    if way.is_stream:
        assert [token for token in handler.tokens if token] == ["Hel", "lo"]


async def test_a_streaming_model_tells_callbacks_every_token(
    plain: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply(chunks=["Hel", "lo"])])
    handler = Results()

    assert await plain.items(SageMakerVLLM(streaming=True, callbacks=[handler])) == ["Hello"]
    assert handler.tokens == ["Hel", "lo"]
    assert emulator.requests[0].operation == "InvokeEndpointWithResponseStream"


async def test_an_echoed_prompt_and_its_logprobs_are_kept(
    way: Way, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([Reply("Once upon")])

    items = await way.items(SageMakerVLLM(logprobs=2), "Once", echo=True, max_tokens=0)

    assert "".join(items).endswith("Once upon")
    body = emulator.requests[0].json
    assert (body["echo"], body["max_tokens"], body["logprobs"]) == (True, 0, 2)


async def test_options_and_model_of_the_call(way: Way, start_emulator: StartEmulator) -> None:
    emulator = start_emulator([Reply("ok")])

    await way.items(
        SageMakerVLLM(target_variant="a"),
        target_variant="b",
        model="other",
        accept="application/json",
        structured_outputs={"choice": ["yes", "no"]},
    )

    request = emulator.requests[0]
    assert request.headers["X-Amzn-SageMaker-Target-Variant"] == "b"
    assert request.json["model"] == "other"
    assert request.json["structured_outputs"] == {"choice": ["yes", "no"]}


async def test_failures_are_of_both_families(way: Way, start_emulator: StartEmulator) -> None:
    from langchain_core.exceptions import ModelInvalidRequestError

    start_emulator([ContainerFault(400, {"error": {"message": "bad regex", "code": 400}})])

    with pytest.raises(ModelInvalidRequestError, match="bad regex") as caught:
        await way.items(SageMakerVLLM())

    assert isinstance(caught.value, SageMakerVLLMError)


async def test_a_stream_that_stops_early_raises(
    streamed: Way, start_emulator: StartEmulator
) -> None:
    begun = data({"choices": [{"index": 0, "text": "Hi", "finish_reason": None}]})
    start_emulator([StreamReply([begun], end=Cut("clean"))])

    with pytest.raises(StreamInterruptedError) as caught:
        await streamed.items(SageMakerVLLM())

    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hi"


async def test_a_prompt_without_an_answer_is_an_error(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    only = data({"choices": [{"index": 1, "text": "b", "finish_reason": "stop"}]})
    start_emulator([StreamReply([only, DONE])])

    with pytest.raises(ServerError, match="only 1 of 2 prompts") as caught:
        await generate(SageMakerVLLM(streaming=True, max_retries=0), ["a", "b"])

    assert caught.value.partial is not None
    assert caught.value.partial.text == "b"


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"temprature": 1}, "Did you mean 'temperature'"),
        ({"top_p": 2}, "top_p=2 must be at most 1"),
        ({"messages": []}, "Unknown keyword messages"),
    ],
)
async def test_wrong_keywords_send_nothing(
    way: Way, start_emulator: StartEmulator, keywords: dict[str, Any], sentence: str
) -> None:
    emulator = start_emulator([])

    with pytest.raises(ConfigurationError, match=sentence):
        await way.items(SageMakerVLLM(), **keywords)

    assert emulator.requests == []


async def test_an_empty_prompt_sends_nothing(
    generate: Generate, start_emulator: StartEmulator
) -> None:
    emulator = start_emulator([])

    with pytest.raises(ConfigurationError, match="prompt is empty"):
        await generate(SageMakerVLLM(), ["a", ""])

    assert emulator.requests == []
