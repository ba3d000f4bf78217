"""Public reports about structured prediction, as tests of the LlamaIndex LLM."""

import copy
import itertools
import json
import re
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.program.function_program import FunctionCallingProgram
from llama_index.core.program.llm_program import LLMTextCompletionProgram
from llama_index.core.prompts import PromptTemplate
from llama_index.core.types import PydanticProgramMode
from pydantic import BaseModel, ConfigDict, Field, create_model

from sagemaker_vllm import ConfigurationError, StructuredOutputError
from sagemaker_vllm.emulator import Reply
from tests.integration.llama_index.conftest import AskerFactory
from tests.integration.llama_index.wire import DONE, either, event, whole

PROMPT = PromptTemplate("Make one of {what}.")
T = TypeVar("T")
LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
ONLY_PLAIN = pytest.mark.parametrize("way", ["plain", "async plain"], indirect=True)
MODES = pytest.mark.parametrize("mode", [PydanticProgramMode.DEFAULT, PydanticProgramMode.FUNCTION])


class M(BaseModel):
    """A small model."""

    a: int


class Box(BaseModel, Generic[T]):
    """A generic model."""

    content: T


class Role(StrEnum):
    """Two roles."""

    A = "a"
    B = "b"


class Sub(BaseModel):
    """A nested model."""

    n: int


class Described(BaseModel):
    """References with neighbours."""

    role: Role = Field(Role.A, description="d")
    sub: Sub = Field(description="nested")


class Scores(BaseModel):
    """An open map."""

    scores: dict[str, int]


class Open(BaseModel):
    """Any further field."""

    model_config = ConfigDict(extra="allow")
    a: int = 0


class Defaults(BaseModel):
    """Fields that need not come."""

    limit: int = 10
    mode: Literal["a", "b"] = "a"
    note: str | None = None


class Half(BaseModel):
    """What comes in pieces."""

    tags: list[str]
    sub: Sub
    req: str


def reply(request: Any, text: str) -> Reply:
    """Answer in the form the request asks for: a call of its tool, or text."""
    tools = request.json.get("tools")
    if not tools:
        return Reply(text)
    return Reply(tool_calls=[{"name": tools[0]["function"]["name"], "arguments": text}])


def answering(text: str) -> Any:
    return lambda request: reply(request, text)


def predict(ask: Any, output_cls: Any, **kwargs: Any) -> Any:
    return ask.predict(output_cls, PROMPT, what="them", **kwargs)[-1]


def schema_sent(ask: Any) -> dict[str, Any]:
    sent = ask.sent[-1]
    found: dict[str, Any] = (
        sent["tools"][0]["function"]["parameters"]
        if sent.get("tools")
        else sent["response_format"]["json_schema"]["schema"]
    )
    return found


@MODES
@pytest.mark.parametrize(
    ("output_cls", "text"),
    [
        (Box[int], '{"content": 5}'),
        (create_model("x" * 100, a=(int, ...)), '{"a": 5}'),
        (create_model("Название модели", a=(int, ...)), '{"a": 5}'),
    ],
    ids=["generic", "long", "not-latin"],
)
def test_b34_name_of_the_schema_is_legal(
    asker: AskerFactory, output_cls: type[BaseModel], text: str, mode: PydanticProgramMode
) -> None:
    ask = asker(answering(text), pydantic_program_mode=mode)

    found = predict(ask, output_cls)

    assert isinstance(found, output_cls)
    sent = ask.sent[0]
    named = (
        sent["tools"][0]["function"]
        if mode == PydanticProgramMode.FUNCTION
        else (sent["response_format"]["json_schema"])
    )
    assert LEGAL.fullmatch(named["name"])


def test_b34_structured_llm_of_a_generic_class(asker: AskerFactory) -> None:
    ask = asker(answering('{"content": 5}'))
    structured = ask.llm.as_structured_llm(Box[int])
    messages = [ChatMessage(content="Box it.")]

    found = ask.run(structured.achat(messages)) if ask.is_async else structured.chat(messages)

    assert found.raw == Box[int](content=5)


@MODES
def test_b35_described_references_are_kept(asker: AskerFactory, mode: PydanticProgramMode) -> None:
    ask = asker(answering('{"role": "b", "sub": {"n": 1}}'), pydantic_program_mode=mode)

    found = predict(ask, Described)

    assert (found.role, found.sub.n) == (Role.B, 1)
    schema = schema_sent(ask)
    assert schema["properties"]["role"]["description"] == "d"
    assert schema["$defs"]["Role"]["enum"] == ["a", "b"]


@MODES
def test_b38_open_maps_stay_open(asker: AskerFactory, mode: PydanticProgramMode) -> None:
    ask = asker(answering('{"scores": {"a": 1}}'), pydantic_program_mode=mode)

    assert predict(ask, Scores).scores == {"a": 1}
    assert schema_sent(ask)["properties"]["scores"]["additionalProperties"] == {"type": "integer"}


def test_b38_further_fields_are_kept(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1, "more": true}'))

    assert predict(ask, Open).model_extra == {"more": True}


@MODES
def test_b41_cut_answer_says_so_and_has_its_text(
    asker: AskerFactory, mode: PydanticProgramMode
) -> None:
    text = '{"title":"ab'

    def answer(request: Any) -> Reply:
        made = reply(request, text)
        return Reply(made.content, tool_calls=made.tool_calls, finish_reason="length")

    ask = asker(answer, pydantic_program_mode=mode)

    with pytest.raises(StructuredOutputError, match="token limit; raise max_tokens") as caught:
        predict(ask, M)

    assert (caught.value.reason, caught.value.text) == ("cut", text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("sorry", "invalid"),
        ('{"a": "x"}', "invalid"),
        ("[1", "invalid"),
        ("So {this}.", "invalid"),
    ],
)
def test_unfit_answer_is_an_error_with_its_text(
    asker: AskerFactory, text: str, reason: str
) -> None:
    ask = asker(answering(text))

    with pytest.raises(StructuredOutputError) as caught:
        predict(ask, M)

    assert (caught.value.reason, caught.value.text) == (reason, text)


def test_refused_answer_is_an_error_with_the_refusal(asker: AskerFactory) -> None:
    refused = {"content": None, "refusal": "I will not."}
    ask = asker(either(whole(refused), event(refused), event({}, "stop"), DONE))

    with pytest.raises(StructuredOutputError) as caught:
        predict(ask, M)

    assert (caught.value.reason, caught.value.text) == ("refused", "I will not.")


FENCE = "`" * 3


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f'{FENCE}json\n{{"note":"1"}}\n{FENCE}', "1"),
        (f'Here it is:\n{FENCE}json\n{{"note":"1"}}\n{FENCE}\nEnjoy.', "1"),
        (f'{FENCE}json\n{{"note":"a {FENCE} b"}}\n{FENCE}', f"a {FENCE} b"),
        ('Here it is: {"note":"1"} Enjoy.', "1"),
    ],
    ids=["fence", "sentences", "backticks-inside", "no-fence"],
)
def test_b43_json_is_found_in_a_fence(asker: AskerFactory, text: str, note: str) -> None:
    ask = asker(answering(text))

    assert predict(ask, Defaults).note == note


@MODES
def test_b45_half_an_object_is_no_error_and_only_grows(
    asker: AskerFactory, mode: PydanticProgramMode
) -> None:
    pieces = ["{", '"tags"', ':["', 'a","b', '"],"sub":{"n":', '1},"req":"x"}']

    def answer(request: Any) -> Reply:
        made = reply(request, "".join(pieces))
        return made if made.tool_calls else Reply(chunks=pieces)

    ask = asker(answer, pydantic_program_mode=mode)

    found = ask.predict(Half, PROMPT, what="them")

    tags = [each.tags or [] for each in found]
    assert all(len(a) <= len(b) for a, b in itertools.pairwise(tags))
    assert found[-1] == Half(tags=["a", "b"], sub=Sub(n=1), req="x")
    if ask.is_streamed and mode == PydanticProgramMode.DEFAULT:
        assert ["a", "b"] in [each.tags for each in found if not isinstance(each, Half)]


TWO = [{"name": "M", "arguments": '{"a": 1}'}, {"name": "M", "arguments": '{"a": 2}'}]


@ONLY_PLAIN
def test_b48_several_calls_are_a_list_when_asked_for(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply(tool_calls=TWO))

    found = predict(ask, M, llm_kwargs={"allow_parallel_tool_calls": True})

    assert found == [M(a=1), M(a=2)]
    assert ask.sent[0]["parallel_tool_calls"] is True


@pytest.mark.parametrize("mode", ["default", "function"])
def test_b48_of_several_calls_the_first_counts_else(asker: AskerFactory, mode: str) -> None:
    ask = asker(lambda _: Reply(tool_calls=TWO), pydantic_program_mode=mode)

    assert predict(ask, M) == M(a=1)


@pytest.mark.parametrize("way", ["stream", "async stream"], indirect=True)
def test_b48_list_cannot_be_streamed(asker: AskerFactory) -> None:
    ask = asker(lambda _: Reply(tool_calls=TWO))

    with pytest.raises(ConfigurationError, match="allow_parallel_tool_calls"):
        predict(ask, M, llm_kwargs={"allow_parallel_tool_calls": True})

    assert ask.requests == []


@ONLY_PLAIN
def test_b49_structured_llm_takes_tool_choice(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'))
    structured = ask.llm.as_structured_llm(M)

    found = (
        ask.run(structured.acomplete("x", tool_choice="none"))
        if ask.is_async
        else structured.complete("x", tool_choice="none")
    )

    assert found.raw == M(a=1)
    assert ask.sent[0]["tool_choice"] == "none"
    assert ask.sent[0]["response_format"]["json_schema"]["name"] == "M"


def test_b49_values_of_the_caller_reach_the_request(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'))
    llm_kwargs = {"temperature": 0, "tool_choice": "required"}
    before = copy.deepcopy(llm_kwargs)

    found = ask.predict(M, PROMPT, what="temperature", llm_kwargs=llm_kwargs)[-1]

    assert found == M(a=1)
    assert (ask.sent[0]["temperature"], ask.sent[0]["tool_choice"]) == (0, "required")
    assert ask.sent[0]["messages"][0]["content"] == "Make one of temperature."
    assert llm_kwargs == before


@MODES
def test_b51_defaults_are_kept_and_not_required(
    asker: AskerFactory, mode: PydanticProgramMode
) -> None:
    ask = asker(answering("{}"), pydantic_program_mode=mode)

    found = predict(ask, Defaults)

    assert (found.limit, found.mode, found.note) == (10, "a", None)
    schema = schema_sent(ask)
    assert "required" not in schema
    assert schema["properties"]["limit"]["default"] == 10
    assert schema["properties"]["mode"]["enum"] == ["a", "b"]


@pytest.mark.parametrize("text", ['Here: {"n": 1, "m": [1, 2', "no json here", "[1, 2", ""])
def test_b53_unfinished_json_of_a_text_answer_is_an_error(asker: AskerFactory, text: str) -> None:
    ask = asker(answering(text), pydantic_program_mode=PydanticProgramMode.LLM)

    with pytest.raises(StructuredOutputError) as caught:
        predict(ask, Sub)

    assert caught.value.text == text


@ONLY_PLAIN
@pytest.mark.parametrize("text", ['Here: {"n": 1, "m": [1, 2', "no json here", "[1, 2"])
def test_b53_llamaindexs_own_text_program_raises_too(asker: AskerFactory, text: str) -> None:
    ask = asker(answering(text))
    program = LLMTextCompletionProgram.from_defaults(output_cls=Sub, llm=ask.llm, prompt=PROMPT)

    with pytest.raises(ValueError, match=re.escape(text)):
        _ = ask.run(program.acall(what="x")) if ask.is_async else program(what="x")


@pytest.mark.parametrize("text", ['{"n": 1}', 'Here: {"n": 1}.', f'{FENCE}\n{{"n": 1}}\n{FENCE}'])
def test_schema_is_in_the_prompt_where_only_text_is_asked_for(
    asker: AskerFactory, text: str
) -> None:
    ask = asker(answering(text), pydantic_program_mode=PydanticProgramMode.LLM)

    assert predict(ask, Sub) == Sub(n=1)
    assert json.dumps(Sub.model_json_schema()) in ask.sent[0]["messages"][-1]["content"]
    assert not {"response_format", "tools"} & ask.sent[0].keys()


@pytest.mark.parametrize(
    ("settings", "keys"),
    [
        ({}, {"response_format"}),
        ({"should_use_structured_outputs": False}, {"tools", "tool_choice", "parallel_tool_calls"}),
        ({"should_use_structured_outputs": False, "is_function_calling_model": False}, set()),
        ({"pydantic_program_mode": "function"}, {"tools", "tool_choice", "parallel_tool_calls"}),
        ({"pydantic_program_mode": "llm"}, set()),
    ],
)
def test_object_is_asked_for_as_the_settings_say(
    asker: AskerFactory, settings: dict[str, Any], keys: set[str]
) -> None:
    ask = asker(answering('{"a": 1}'), **settings)

    assert predict(ask, M) == M(a=1)
    assert ask.sent[0].keys() - {"model", "messages", "stream", "stream_options"} == keys
    assert ask.sent[0].get("tool_choice") in (None, "required")


def test_text_completion_predicts_objects_too(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'), is_chat_model=False)

    assert predict(ask, M) == M(a=1)
    assert ask.sent[0]["response_format"]["json_schema"]["name"] == "M"
    assert "Make one of them." in ask.sent[0]["prompt"]


def test_system_prompt_goes_along(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'), system_prompt="Be exact.")

    predict(ask, M)

    assert ask.sent[0]["messages"][0] == {"role": "system", "content": "Be exact."}


@ONLY_PLAIN
def test_llamaindexs_own_function_program_works(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'))
    program = FunctionCallingProgram.from_defaults(output_cls=M, llm=ask.llm, prompt=PROMPT)

    found = ask.run(program.acall(what="x")) if ask.is_async else program(what="x")

    assert found == M(a=1)
    assert ask.sent[0]["tool_choice"] == "required"


@pytest.mark.parametrize("output_cls", [dict, M(a=1)])
def test_no_pydantic_class_is_refused_before_any_request(
    asker: AskerFactory, output_cls: Any
) -> None:
    ask = asker(answering("{}"))

    with pytest.raises(ConfigurationError, match="no Pydantic class"):
        predict(ask, output_cls)

    assert ask.requests == []


@ONLY_PLAIN
def test_text_in_place_of_a_prompt_is_refused_before_any_request(asker: AskerFactory) -> None:
    ask = asker(answering("{}"))

    with pytest.raises(ConfigurationError, match="PromptTemplate"):
        ask.predict(M, "Make one.")

    assert ask.requests == []


@ONLY_PLAIN
def test_structured_llm_of_no_class_is_refused(asker: AskerFactory) -> None:
    with pytest.raises(ConfigurationError, match="no Pydantic class"):
        asker(answering("{}")).llm.as_structured_llm(dict)


def test_structured_llm_answers_every_call(asker: AskerFactory) -> None:
    ask = asker(answering('{"a": 1}'))
    ask.llm = ask.llm.as_structured_llm(M)

    assert ask.chat([ChatMessage(content="Make one.")])[-1].raw == M(a=1)
    assert ask.complete("Make one.")[-1].raw == M(a=1)
    assert ask.complete("Make one.")[-1].text.replace(" ", "") == '{"a":1}'


@pytest.mark.parametrize("mode", ["openai", "guidance", "lm-format-enforcer"])
def test_mode_of_another_class_is_refused_before_any_request(
    asker: AskerFactory, mode: str
) -> None:
    ask = asker(answering("{}"), pydantic_program_mode=mode)

    with pytest.raises(ConfigurationError, match=f"pydantic_program_mode='{mode}'"):
        predict(ask, M)

    assert ask.requests == []
