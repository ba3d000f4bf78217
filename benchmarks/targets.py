"""What is aimed at: figures of the project's design, each held against a case."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.cases import AIOHTTP, BOTO3, CORE, LANGCHAIN, LITELLM, LLAMA

_STREAMS = "async stream 100 tokens, 64 in flight"
_CALLS = "async call, 64 in flight"
_LONG = "100,000 tokens / 1,000 tokens"


@dataclass(frozen=True)
class Target:
    """A figure to reach.

    Attributes:
        text: What is aimed at.
        bound: The figure: a least for a ratio, a most for all else.
        case: The case.
        subject: Whose figure.
        against: What it is divided by, or what is taken off it.
        kind: Which figure.
    """

    text: str
    bound: float
    case: str
    subject: str
    against: str = ""
    kind: Literal["ratio", "difference", "value", "memory", "lag"] = "ratio"

    def is_met(self, figure: float) -> bool:
        return figure >= self.bound if self.kind == "ratio" else figure <= self.bound


TARGETS = [
    Target(
        "parts → chunks / bytes split + orjson",
        0.8,
        "decode events",
        "parts → chunks",
        "bytes split + orjson",
    ),
    Target("LangChain stream / bare boto3", 0.8, "stream 2,000 tokens", LANGCHAIN, BOTO3),
    Target("LangChain astream / litellm", 8, _STREAMS, LANGCHAIN, LITELLM),
    Target("LlamaIndex astream_chat / litellm", 8, _STREAMS, LLAMA, LITELLM),
    Target("LangChain ainvoke / litellm", 8, _CALLS, LANGCHAIN, LITELLM),
    Target("LangChain ainvoke / bare aiohttp", 0.6, _CALLS, LANGCHAIN, AIOHTTP),
    Target("core chat, async / bare aiohttp", 0.6, _CALLS, CORE, AIOHTTP),
    Target("LangChain invoke / bare boto3", 0.8, "call", LANGCHAIN, BOTO3),
    Target("core chat / bare boto3", 0.8, "call", CORE, BOTO3),
    Target("ms added to first token", 2, "first token", LANGCHAIN, BOTO3, "difference"),
    Target("1,000 streams / 64 streams", 0.8, "many streams", "core 1000", "core 64"),
    Target("MB for 1,000 streams", 200, "many streams", "core 1000", kind="memory"),
    Target("ms of loop lag, 1,000 streams", 300, "many streams", "core 1000", kind="lag"),
    Target("ms to import the core", 60, "import", "sagemaker_vllm", kind="value"),
    Target(f"{_LONG}, core", 0.9, "long stream", "core 100,000", "core 1,000"),
    Target(f"{_LONG}, LangChain", 0.9, "long stream", "LangChain 100,000", "LangChain 1,000"),
    Target(f"{_LONG}, LlamaIndex", 0.9, "long stream", "LlamaIndex 100,000", "LlamaIndex 1,000"),
]
