"""Retrieval with the shipped documents: the right page is found, sent, streamed, remembered."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.memory import ChatMemoryBuffer

from sagemaker_vllm.emulator import Reply
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.ways import Asker

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama_index_rag.py"
MODULE: dict[str, Any] = runpy.run_path(str(EXAMPLE))
Price = MODULE["Price"]
make_index: Callable[[], VectorStoreIndex] = MODULE["make_index"]


@pytest.fixture(autouse=True)
def _settings() -> Any:
    llm = Settings._llm
    yield
    Settings._llm = llm


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    return make_index()


@pytest.mark.parametrize(
    ("question", "file_name"),
    [
        ("What does a cargo bicycle cost?", "rentals.md"),
        ("When does the shop close in winter, from November on?", "opening_hours.md"),
        ("How long does a full inspection take?", "repairs.md"),
        ("When does the lighthouse tour start?", "tours.md"),
        ("Must a stolen bicycle be reported to the police?", "accidents.md"),
    ],
)
def test_embedding_finds_the_right_page(
    index: VectorStoreIndex, question: str, file_name: str
) -> None:
    found = index.as_retriever(similarity_top_k=1).retrieve(question)

    assert found[0].metadata["file_name"] == file_name


def query(engine: Any, ask: Asker, question: str) -> Any:
    return ask.run(engine.aquery(question)) if ask.is_async else engine.query(question)


def talk(engine: Any, ask: Asker, question: str) -> str:
    """Ask a chat engine in the asker's way, and return the whole answer."""
    if ask.is_async:
        text: str = ask.run(atalk(engine, question, streamed=ask.is_streamed))
        return text
    if ask.is_streamed:
        return "".join(engine.stream_chat(question).response_gen)
    return str(engine.chat(question))


async def atalk(engine: Any, question: str, *, streamed: bool) -> str:
    if not streamed:
        return str(await engine.achat(question))
    answer = await engine.astream_chat(question)
    return "".join([token async for token in answer.async_response_gen()])


def test_query_engine_sends_the_page_and_returns_the_answer(
    asker: AskerFactory, index: VectorStoreIndex
) -> None:
    ask = asker([Reply("32 euros")])
    engine = index.as_query_engine(llm=ask.llm, similarity_top_k=1)

    answer = query(engine, ask, "What does a cargo bicycle cost?")

    assert "a cargo bicycle 32 euros" in ask.sent[0]["messages"][-1]["content"]
    assert answer.source_nodes[0].metadata["file_name"] == "rentals.md"
    assert str(answer) == "32 euros"


def test_query_engine_streams_token_by_token(asker: AskerFactory, index: VectorStoreIndex) -> None:
    ask = asker([Reply(chunks=["At", " nine", "."])])
    engine = index.as_query_engine(llm=ask.llm, similarity_top_k=1, streaming=True)

    answer = engine.query("When does the shop open?")

    assert isinstance(answer, StreamingResponse)
    assert [token for token in answer.response_gen if token] == ["At", " nine", "."]


def test_query_engine_gives_an_object(asker: AskerFactory, index: VectorStoreIndex) -> None:
    ask = asker([Reply('{"item": "inspection", "euros": 65}')])
    structured = ask.llm.as_structured_llm(Price)
    engine = index.as_query_engine(llm=structured, similarity_top_k=1)

    answer = query(engine, ask, "What does a full inspection cost?")

    assert answer.response == Price(item="inspection", euros=65)
    assert ask.sent[0]["response_format"]["json_schema"]["name"] == "Price"


@pytest.mark.parametrize("mode", [ChatMode.CONTEXT, ChatMode.CONDENSE_PLUS_CONTEXT])
def test_chat_engine_remembers_what_was_said(
    asker: AskerFactory, index: VectorStoreIndex, mode: ChatMode
) -> None:
    ask = asker(lambda _: Reply("On Saturdays at ten."))
    memory = ChatMemoryBuffer.from_defaults(token_limit=3000)
    engine = index.as_chat_engine(chat_mode=mode, llm=ask.llm, memory=memory, similarity_top_k=1)

    questions = ("When does the lighthouse tour start?", "How long is it?")
    answers = [talk(engine, ask, question) for question in questions]

    assert answers == ["On Saturdays at ten."] * 2
    sent = [message["content"] for message in ask.sent[-1]["messages"]]
    assert sent[1:] == [questions[0], answers[0], questions[1]]
    assert [message.role.value for message in engine.chat_history] == ["user", "assistant"] * 2


def test_settings_llm_is_used_by_default(asker: AskerFactory, index: VectorStoreIndex) -> None:
    ask = asker([Reply("From Settings.")])
    Settings.llm = ask.llm

    answer = index.as_query_engine(similarity_top_k=1).query("When?")

    assert str(answer) == "From Settings."
