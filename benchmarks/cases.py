"""What is measured."""

import base64
import os
from collections.abc import Callable

from benchmarks import decoding, ours, peers
from benchmarks.measure import Case, Driver, Run, first_chunk
from benchmarks.ours import AsyncCall, Call
from benchmarks.processes import ManyStreams, import_time

CORE, LANGCHAIN, LLAMA = "core", "LangChain", "LlamaIndex"
BOTO3, AIOHTTP, LITELLM = "bare boto3", "bare aiohttp", "litellm"
OPENAI, AWS = "langchain-openai (plain SSE)", "langchain-aws"
REQUESTS, TOKENS = "requests/s", "tokens/s"
# A LangChain model that does nothing but call the bare client.
LEAST = "least LangChain model"
# LangChain in a process that collects garbage rarely.
RARE_GC = "LangChain, rare gc"
SLOW = frozenset({OPENAI, AWS, LITELLM})
ONE, MANY = 1, 64

Factory = Callable[[str], Call]
AsyncFactory = Callable[[str], AsyncCall]

CALLS: dict[str, Factory] = {
    BOTO3: peers.boto3_plain,
    LEAST: peers.least_langchain,
    CORE: ours.core_plain,
    LANGCHAIN: ours.langchain_invoke,
    LLAMA: ours.llama_chat,
    OPENAI: peers.openai_invoke,
    AWS: peers.langchain_aws_invoke,
    LITELLM: peers.litellm_plain,
}
ASYNC_CALLS: dict[str, AsyncFactory] = {
    AIOHTTP: peers.aiohttp_plain,
    LEAST: peers.least_async_langchain,
    CORE: ours.core_aplain,
    LANGCHAIN: ours.langchain_ainvoke,
    LLAMA: ours.llama_achat,
    OPENAI: peers.openai_ainvoke,
    LITELLM: peers.litellm_aplain,
}
STREAMS: dict[str, Factory] = {
    BOTO3: peers.boto3_stream,
    CORE: ours.core_stream,
    LANGCHAIN: ours.langchain_stream,
    LLAMA: ours.llama_stream,
    OPENAI: peers.openai_stream,
    AWS: peers.langchain_aws_stream,
    LITELLM: peers.litellm_stream,
}
ASYNC_STREAMS: dict[str, AsyncFactory] = {
    AIOHTTP: peers.aiohttp_stream,
    CORE: ours.core_astream,
    LANGCHAIN: ours.langchain_astream,
    LLAMA: ours.llama_astream,
    OPENAI: peers.openai_astream,
    LITELLM: peers.litellm_astream,
}
TOOLS: dict[str, Factory] = {
    BOTO3: peers.boto3_stream,
    CORE: ours.core_stream,
    LANGCHAIN: ours.langchain_stream,
    LLAMA: ours.llama_stream,
    OPENAI: peers.openai_stream,
}
_PICTURE = 3 * 2**20  # bytes, 4 MiB as base64
_SMALL = "tokens-20"


def cases(driver: Driver) -> list[Case]:
    """Return the cases of every round."""
    return [
        _sync("call", REQUESTS, CALLS, _SMALL, driver),
        _threads("call, 64 threads", CALLS, driver),
        _async("async call", REQUESTS, _SMALL, ONE, driver),
        _async("async call, 64 in flight", REQUESTS, _SMALL, MANY, driver),
        _sync("stream 100 tokens", TOKENS, STREAMS, "tokens-100", driver),
        _sync("stream 2,000 tokens", TOKENS, STREAMS, "tokens-2000", driver),
        _async("async stream 2,000 tokens", TOKENS, "tokens-2000", ONE, driver),
        _async("async stream 100 tokens, 64 in flight", TOKENS, "tokens-100", MANY, driver),
        _async(
            "the same, an event a write",
            TOKENS,
            "tokens-100-each",
            MANY,
            driver,
        ),
        _sync("tool-call stream", "deltas/s", TOOLS, "tools-100", driver),
        _image(driver),
        Case(
            "text, 128 prompts",
            "prompts/s",
            {
                "a request each": driver.one_by_one(ours.prompts_in_a_request_each("prompts")),
                "one request": driver.one_by_one(ours.prompts_in_one_request("prompts")),
            },
            reference="a request each",
        ),
        _first_token(),
        Case(
            "decode events",
            "events/s",
            {name: driver.one_by_one(call) for name, call in decoding.EVENTS.items()},
            reference="bytes split + orjson",
        ),
        Case(
            "decode frames",
            "frames/s",
            {name: driver.one_by_one(call) for name, call in decoding.FRAMES.items()},
            reference="botocore",
        ),
    ]


def rare_cases(driver: Driver, streams: ManyStreams, *, quick: bool) -> list[Case]:
    """Return the cases that few rounds are enough for."""
    modules = (
        "boto3",
        "sagemaker_vllm",
        "langchain_sagemaker_vllm",
        "llama_index_sagemaker_vllm",
        "langchain_openai",
        "langchain_aws",
        "litellm",
    )
    runs = {module: import_time(module) for module in modules}
    found = [Case("import", "ms", runs, reference="boto3"), _many_streams(streams, quick=quick)]
    return found if quick else [*found, _long(driver)]


def _sync(name: str, unit: str, subjects: dict[str, Factory], script: str, driver: Driver) -> Case:
    runs = {subject: driver.one_by_one(factory(script)) for subject, factory in subjects.items()}
    return Case(name, unit, runs, reference=BOTO3, slow=SLOW)


def _threads(name: str, subjects: dict[str, Factory], driver: Driver) -> Case:
    runs = {
        subject: driver.in_threads(factory(_SMALL), MANY) for subject, factory in subjects.items()
    }
    return Case(name, REQUESTS, runs, reference=BOTO3, slow=SLOW)


def _async(name: str, unit: str, script: str, tasks: int, driver: Driver) -> Case:
    subjects = ASYNC_CALLS if unit == REQUESTS else ASYNC_STREAMS
    runs = {
        subject: driver.in_flight(factory(script), tasks) for subject, factory in subjects.items()
    }
    return Case(name, unit, runs, reference=AIOHTTP, slow=SLOW)


def _image(driver: Driver) -> Case:
    url = "data:image/png;base64," + base64.b64encode(os.urandom(_PICTURE)).decode()
    subjects: dict[str, Factory] = {
        BOTO3: peers.boto3_image(url),
        CORE: ours.core_image(url),
        LANGCHAIN: ours.langchain_image(url),
    }
    return _sync("4 MB image", REQUESTS, subjects, _SMALL, driver)


def _first_token() -> Case:
    subjects = {
        BOTO3: peers.boto3_first,
        CORE: ours.core_first,
        LANGCHAIN: ours.langchain_first,
        LLAMA: ours.llama_first,
    }
    script = "tokens-20-each"
    runs = {name: first_chunk(factory(script), 20) for name, factory in subjects.items()}
    return Case("first token", "ms", runs, reference=BOTO3)


def _many_streams(streams: ManyStreams, *, quick: bool) -> Case:
    runs: dict[str, Run] = {}
    for subject in (AIOHTTP, CORE) if quick else (AIOHTTP, CORE, LANGCHAIN):
        for count in (64, 1000) if quick else (64, 256, 1000):
            runs[f"{subject} {count}"] = streams.run(subject, count)
    if not quick:
        runs[f"{RARE_GC} 1000"] = streams.run(RARE_GC, 1000)
    return Case("many streams", TOKENS, runs, reference=f"{AIOHTTP} 64")


def _long(driver: Driver) -> Case:
    runs: dict[str, Run] = {}
    for subject in (CORE, LANGCHAIN, LLAMA):
        for count in (1000, 100_000):
            call = STREAMS[subject](f"tokens-{count}")
            runs[f"{subject} {count:,}"] = driver.one_by_one(call)
    return Case("long stream", TOKENS, runs, reference=f"{CORE} 1,000")
