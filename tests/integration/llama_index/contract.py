"""What an LLM of LlamaIndex must do, whichever class it is.

LlamaIndex has no such suite. Subclass `LLMContract`, and give it a fixture `llm`: an LLM that talks
to `SyntheticModel`. Every test that can runs in all four ways: plain and streamed, synchronous and
asynchronous.
"""

import asyncio
import base64
import copy
import io
import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.callbacks import CallbackManager, TokenCountingHandler
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from PIL import Image
from pydantic import BaseModel

from tests.integration.llama_index.ways import Asker, Way

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class City(BaseModel):
    """A city."""

    name: str
    population: int = 1
    districts: list[str] = []


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


MULTIPLY = FunctionTool.from_defaults(multiply)
WEATHER = FunctionTool.from_defaults(weather)
CITY_PROMPT = PromptTemplate('Describe the city "{name}" with its population 2100000.')
ASK_MULTIPLY = "Please multiply 6 and 7."
ASK_BOTH = 'Multiply 6 and 7, and tell the weather in the city "Paris".'


def user(*blocks: Any) -> ChatMessage:
    content = [TextBlock(text=each) if isinstance(each, str) else each for each in blocks]
    return ChatMessage(role=MessageRole.USER, blocks=content)


def blocks_of(response: ChatResponse, kind: type[Any]) -> list[Any]:
    return [block for block in response.message.blocks if isinstance(block, kind)]


def png(color: str, size: tuple[int, int] = (4, 3)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def names(events: Sequence[Any]) -> list[str]:
    return [event.class_name() for event in events]


class LLMContract:
    """Subclass it, with a fixture `llm`."""

    @pytest.fixture
    def ask(self, llm: FunctionCallingLLM, way: Way, runner: asyncio.Runner) -> Asker:
        return Asker(llm, way, runner)

    # Text

    def test_chat_answers_with_an_assistant_message(self, ask: Asker) -> None:
        response = ask.chat([user("Say hello to Paris.")])[-1]

        assert response.message.role == MessageRole.ASSISTANT
        assert "hello to Paris" in (response.message.content or "")

    def test_complete_answers_with_text(self, ask: Asker) -> None:
        response = ask.complete("Say hello to Paris.")[-1]

        assert "hello to Paris" in response.text

    def test_stream_is_cumulative(self, ask: Asker) -> None:
        responses = ask.chat([user("Say hello to Paris, Rome and Oslo.")])

        grown = ""
        for response in responses:
            grown += (response.delta if ask.is_streamed else response.message.content) or ""
            assert response.message.content == grown

    def test_completion_stream_is_cumulative(self, ask: Asker) -> None:
        responses = ask.complete("Say hello to Paris, Rome and Oslo.")

        grown = ""
        for response in responses:
            grown += (response.delta if ask.is_streamed else response.text) or ""
            assert response.text == grown

    def test_every_way_gives_the_same_answer(self, ask: Asker, llm: FunctionCallingLLM) -> None:
        messages = [ChatMessage(role="system", content="Be brief."), user("Name three cities.")]

        response = ask.chat(messages)[-1]

        expected = llm.chat(messages)
        assert response.message == expected.message
        assert {name: response.additional_kwargs.get(name) for name in COUNTS} == {
            name: expected.additional_kwargs.get(name) for name in COUNTS
        }

    def test_parameters_of_a_call_reach_the_model(self, ask: Asker) -> None:
        full = ask.chat([user("Say hello to Paris and Rome.")])[-1].message.content or ""

        short = ask.chat([user("Say hello to Paris and Rome.")], max_tokens=3)[-1]
        stopped = ask.chat([user("Say hello to Paris and Rome.")], stop=["Rome"])[-1]

        assert 0 < len(short.message.content or "") < len(full)
        assert "Rome" in full
        assert "Rome" not in (stopped.message.content or "")

    # Usage and callbacks

    def test_token_counts_are_on_the_last_response(self, ask: Asker) -> None:
        chat = ask.chat([user("Say hello.")])[-1]
        completion = ask.complete("Say hello.")[-1]

        assert all(chat.additional_kwargs[name] > 0 for name in COUNTS)
        assert all(completion.additional_kwargs[name] > 0 for name in COUNTS)

    def test_usage_is_in_raw(self, ask: Asker) -> None:
        raw = dict(ask.chat([user("Say hello.")])[-1].raw or {})

        usage = dict(raw["usage"])
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0

    @pytest.mark.parametrize("method", ["chat", "complete"])
    def test_token_counter_counts_as_the_server_does(self, ask: Asker, method: str) -> None:
        counter = TokenCountingHandler(tokenizer=str.split)
        ask.llm.callback_manager = CallbackManager([counter])
        asked = [user("Say hello.")] if method == "chat" else "Say hello."

        response = getattr(ask, method)(asked)[-1]

        counted = (counter.prompt_llm_token_count, counter.completion_llm_token_count)
        assert counted == tuple(response.additional_kwargs[name] for name in COUNTS[:2])
        assert len(counter.llm_token_counts) == 1

    @pytest.mark.parametrize(
        ("method", "event"), [("chat", "LLMChat"), ("complete", "LLMCompletion")]
    )
    def test_every_call_is_announced_once(
        self, ask: Asker, events: list[Any], method: str, event: str
    ) -> None:
        asked = [user("Say hello.")] if method == "chat" else "Say hello."

        responses = getattr(ask, method)(asked)

        seen = [name for name in names(events) if name.startswith("LLM")]
        pieces = [f"{event}InProgressEvent"] * (len(responses) if ask.is_streamed else 0)
        assert seen == [f"{event}StartEvent", *pieces, f"{event}EndEvent"]

    # Tools

    def test_required_tool_is_called_with_arguments_that_fit(self, ask: Asker) -> None:
        response = ask.chat_with_tools([MULTIPLY], user_msg=ASK_MULTIPLY, tool_required=True)[-1]

        calls = ask.llm.get_tool_calls_from_response(response)
        assert [(call.tool_name, call.tool_kwargs) for call in calls] == [
            ("multiply", {"a": 6, "b": 7})
        ]
        assert calls[0].tool_id

    def test_call_is_a_block_of_the_message(self, ask: Asker) -> None:
        response = ask.chat_with_tools([MULTIPLY], user_msg=ASK_MULTIPLY)[-1]

        called = ask.llm.get_tool_calls_from_response(response)[0]
        last = response.message.blocks[-1]
        assert isinstance(last, ToolCallBlock)
        assert (last.tool_call_id, last.tool_name) == (called.tool_id, called.tool_name)

    def test_parallel_calls_come_when_allowed(self, ask: Asker) -> None:
        response = ask.chat_with_tools(
            [MULTIPLY, WEATHER], user_msg=ASK_BOTH, allow_parallel_tool_calls=True
        )[-1]

        calls = ask.llm.get_tool_calls_from_response(response)
        assert {call.tool_name for call in calls} == {"multiply", "weather"}
        assert len({call.tool_id for call in calls}) == 2

    def test_one_call_comes_when_parallel_ones_are_not_allowed(self, ask: Asker) -> None:
        response = ask.chat_with_tools([MULTIPLY, WEATHER], user_msg=ASK_BOTH)[-1]

        assert len(ask.llm.get_tool_calls_from_response(response)) == 1

    def test_chosen_tool_is_called(self, ask: Asker) -> None:
        response = ask.chat_with_tools(
            [MULTIPLY, WEATHER], user_msg=ASK_BOTH, tool_choice="weather"
        )[-1]

        calls = ask.llm.get_tool_calls_from_response(response)
        assert [call.tool_name for call in calls] == ["weather"]

    def test_choice_of_an_unknown_tool_is_refused(self, ask: Asker) -> None:
        with pytest.raises(ValueError, match="nonsense"):
            ask.chat_with_tools([MULTIPLY], user_msg=ASK_MULTIPLY, tool_choice="nonsense")

    def test_answer_without_tool_call(self, ask: Asker) -> None:
        response = ask.chat_with_tools([MULTIPLY], user_msg="Hello.")[-1]

        none = ask.llm.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        assert none == []
        with pytest.raises(ValueError, match="tool call"):
            ask.llm.get_tool_calls_from_response(response)

    def test_chat_without_any_tool_is_a_chat(self, ask: Asker) -> None:
        response = ask.chat_with_tools([], user_msg="Say hello to Paris.")[-1]

        assert "hello to Paris" in (response.message.content or "")

    def test_call_and_result_can_be_sent_back(self, ask: Asker) -> None:
        history = [user(ASK_MULTIPLY)]
        called = ask.chat_with_tools([MULTIPLY], chat_history=history)[-1]
        call_id = ask.llm.get_tool_calls_from_response(called)[0].tool_id
        result = ChatMessage(
            role=MessageRole.TOOL, content="42", additional_kwargs={"tool_call_id": call_id}
        )

        answer = ask.chat_with_tools([MULTIPLY], chat_history=[*history, called.message, result])

        calls = ask.llm.get_tool_calls_from_response(answer[-1], error_on_no_tool_call=False)
        assert calls == []
        assert "42" in (answer[-1].message.content or "")

    def test_history_of_the_caller_is_left_as_it_is(self, ask: Asker) -> None:
        history = [ChatMessage(role="system", content="Be brief.")]
        before = copy.deepcopy(history)

        ask.chat_with_tools([MULTIPLY], user_msg=ASK_MULTIPLY, chat_history=history)

        assert history == before

    def test_predict_and_call_returns_the_result_of_the_tool(
        self, llm: FunctionCallingLLM, runner: asyncio.Runner
    ) -> None:
        found = llm.predict_and_call([MULTIPLY], user_msg=ASK_MULTIPLY)
        awaited = runner.run(llm.apredict_and_call([MULTIPLY], user_msg=ASK_MULTIPLY))

        assert found.response == awaited.response == "42"

    @pytest.mark.parametrize("streaming", [True, False])
    def test_agent_calls_the_tool_and_answers(
        self, llm: FunctionCallingLLM, runner: asyncio.Runner, streaming: bool
    ) -> None:
        agent = FunctionAgent(tools=[MULTIPLY], llm=llm, streaming=streaming)

        async def run() -> Any:
            return await agent.run(user_msg=ASK_MULTIPLY)

        output = runner.run(run())

        assert [call.tool_name for call in output.tool_calls] == ["multiply"]
        assert "42" in str(output)

    # Structured output

    def test_structured_prediction_gives_the_object(self, ask: Asker) -> None:
        city = ask.predict(City, CITY_PROMPT, name="Paris")[-1]

        assert isinstance(city, City)
        assert (city.name, city.population) == ("Paris", 2_100_000)

    def test_keywords_of_the_caller_are_left_as_they_are(self, ask: Asker) -> None:
        llm_kwargs = {"temperature": 0.5, "tool_choice": "required"}

        city = ask.predict(City, CITY_PROMPT, llm_kwargs=llm_kwargs, name="Paris")[-1]

        assert city.name == "Paris"
        assert llm_kwargs == {"temperature": 0.5, "tool_choice": "required"}

    def test_structured_prediction_is_announced(self, ask: Asker, events: list[Any]) -> None:
        ask.predict(City, CITY_PROMPT, name="Paris")

        assert names(events).count("LLMStructuredPredictStartEvent") == 1
        assert names(events).count("LLMStructuredPredictEndEvent") == 1

    def test_partial_objects_only_grow(self, ask: Asker) -> None:
        cities = ask.predict(City, CITY_PROMPT, name="Paris")

        grown = [city.name or "" for city in cities]
        assert all(after.startswith(before) for before, after in itertools.pairwise(grown))
        assert {city.population for city in cities} <= {None, 2_100_000}

    def test_structured_answer_that_is_cut_raises(self, ask: Asker) -> None:
        with pytest.raises(Exception, match="cut") as caught:
            ask.predict(City, CITY_PROMPT, llm_kwargs={"max_tokens": 3}, name="Paris")

        assert getattr(caught.value, "text", "").startswith("{")

    def test_class_that_is_no_pydantic_class_is_refused(self, ask: Asker) -> None:
        with pytest.raises(ValueError, match="Pydantic"):
            ask.predict(dict, CITY_PROMPT, name="Paris")

    def test_structured_llm_answers_with_the_object(
        self, llm: FunctionCallingLLM, runner: asyncio.Runner
    ) -> None:
        structured = llm.as_structured_llm(City)
        messages = [user(CITY_PROMPT.format(name="Paris"))]

        found = structured.chat(messages)
        awaited = runner.run(structured.achat(messages))
        streamed = list(structured.stream_chat(messages))

        assert found.raw == awaited.raw == streamed[-1].raw
        assert isinstance(found.raw, City)

    # Blocks

    def test_images_are_seen_in_their_order(self, ask: Asker) -> None:
        message = user(
            "First:", ImageBlock(image=png("red")), "second:", ImageBlock(image=png("blue", (9, 8)))
        )

        content = ask.chat([message])[-1].message.content or ""

        assert 0 <= content.find("4x3") < content.find("9x8")

    def test_image_alone_is_enough(self, ask: Asker) -> None:
        content = ask.chat([user(ImageBlock(image=png("red")))])[-1].message.content or ""

        assert "4x3" in content

    def test_image_in_base64_is_seen(self, ask: Asker) -> None:
        block = ImageBlock(image=base64.b64encode(png("red")))

        assert "4x3" in (ask.chat([user("What is it?", block)])[-1].message.content or "")

    def test_block_that_the_server_cannot_take_is_refused_by_name(self, ask: Asker) -> None:
        pdf = DocumentBlock(data=b"%PDF-1.7 ...", title="report.pdf")

        with pytest.raises(ValueError, match=r"report\.pdf"):
            ask.chat([user("Summarise it.", pdf)])

    def test_plain_text_document_is_read(self, ask: Asker) -> None:
        notes = DocumentBlock(data=b"Oslo has fjords.", title="notes.txt")

        content = ask.chat([user("Repeat: ", notes)])[-1].message.content or ""

        assert "fjords" in content

    def test_thinking_comes_as_a_block_before_the_text(self, ask: Asker) -> None:
        responses = ask.chat(
            [user("Say hello to Paris.")],
            extra_body={"chat_template_kwargs": {"enable_thinking": True}},
        )

        kinds = [type(block) for block in responses[-1].message.blocks]
        assert kinds == [ThinkingBlock, TextBlock]
        thinking = blocks_of(responses[-1], ThinkingBlock)[0].content
        deltas = [each.additional_kwargs.get("thinking_delta") or "" for each in responses]
        assert "".join(deltas) == (thinking if ask.is_streamed else "")
        assert thinking not in (responses[-1].message.content or "")

    # Errors

    def test_refusal_of_the_server_names_its_reason_and_status(self, ask: Asker) -> None:
        with pytest.raises(Exception, match="maximum context length") as caught:
            ask.chat([user("word " * 40_000)])

        assert getattr(caught.value, "status_code", None) == 400

    def test_unknown_keyword_is_refused_before_any_request(self, ask: Asker) -> None:
        with pytest.raises((ValueError, TypeError), match="temprature"):
            ask.chat([user("Hello.")], temprature=0.5)

    # Objects

    def test_pickled_and_copied_models_answer_alike(
        self, llm: FunctionCallingLLM, runner: asyncio.Runner
    ) -> None:
        messages = [user("Say hello.")]
        expected = llm.chat(messages).message
        copies: Sequence[Any] = [
            pickle.loads(pickle.dumps(llm)),  # noqa: S301 - the test's own bytes
            copy.deepcopy(llm),
            copy.copy(llm),
            llm.model_copy(update={"temperature": 0.0}),
        ]

        answers = [each.chat(messages).message for each in copies]

        assert answers == [expected] * 4

    def test_serialised_model_answers_alike(self, llm: FunctionCallingLLM) -> None:
        messages = [user("Say hello.")]
        written = llm.to_dict()

        answer = type(llm).from_dict(written).chat(messages)

        assert written["class_name"] == type(llm).class_name() == type(llm).__name__
        assert answer.message == llm.chat(messages).message

    def test_metadata_says_what_the_model_can_do(self, llm: FunctionCallingLLM) -> None:
        metadata = llm.metadata

        assert metadata.is_chat_model
        assert metadata.is_function_calling_model
        assert metadata.num_output > 0
        assert metadata.context_window == 32_768
