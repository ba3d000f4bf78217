"""Text, JSON, reasoning and media of the synthetic model, and the limits of a request."""

import base64
import json
import struct
import zlib
from typing import Any

import pytest

from sagemaker_vllm.emulator import ContainerFault, SyntheticModel
from tests.unit.emulator.synthetic import answer, deltas, message, render, send

THINK: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}


def png(red: int, green: int, blue: int, width: int = 3, height: int = 2) -> str:
    """Write a plain picture as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes((red, green, blue)) * width) * height
    image = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def with_parts(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "Look:"}, *parts]}]


def test_text_repeats_the_last_user_message() -> None:
    assert message("How are you?")["content"] == 'You said: "How are you?".'


def test_the_same_request_gets_the_same_answer() -> None:
    first, second = answer("Hello", seed=3), answer("Hello", seed=3)

    assert first["choices"] == second["choices"]
    assert answer("Hello", seed=4)["choices"] != first["choices"]


def test_samples_differ() -> None:
    choices = answer("Hello", n=5)["choices"]

    assert [choice["index"] for choice in choices] == [0, 1, 2, 3, 4]
    assert len({choice["message"]["content"] for choice in choices}) == 5


def test_max_tokens_cuts() -> None:
    whole = answer("Hello there")
    cut = answer("Hello there", max_tokens=3)

    assert whole["choices"][0]["finish_reason"] == "stop"
    (choice,) = cut["choices"]
    assert choice["finish_reason"] == "length"
    assert whole["choices"][0]["message"]["content"].startswith(choice["message"]["content"])
    assert cut["usage"]["completion_tokens"] == 3


def test_an_answer_that_just_fits_has_no_room_for_its_end() -> None:
    count = answer("Hello")["usage"]["completion_tokens"]

    exact = answer("Hello", max_tokens=count - 1)["choices"][0]
    roomy = answer("Hello", max_completion_tokens=count, max_tokens=1)["choices"][0]

    assert exact["message"] == roomy["message"]
    assert exact["finish_reason"] == "length"
    assert roomy["finish_reason"] == "stop"


def test_the_context_cuts_what_max_tokens_would_not() -> None:
    model = SyntheticModel(max_model_len=12)

    found = answer("one two three", model)

    assert found["usage"]["total_tokens"] == 12
    assert found["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("parameters", "content", "stop_reason"),
    [
        ({"stop": "Hel"}, 'You said: "', "Hel"),
        ({"stop": ["xyz", "said"]}, "You ", "said"),
        ({"stop": "said", "include_stop_str_in_output": True}, "You said", "said"),
        ({"stop": ["xyz"]}, 'You said: "Hello".', None),
    ],
)
def test_stop_strings_end_the_text(
    parameters: dict[str, Any], content: str, stop_reason: str | None
) -> None:
    (choice,) = answer("Hello", **parameters)["choices"]

    assert choice["message"]["content"] == content
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] == stop_reason


def test_max_tokens_before_a_stop_string_cuts() -> None:
    (choice,) = answer("Hello", stop="Hello", max_tokens=2)["choices"]

    assert choice["finish_reason"] == "length"
    assert choice["stop_reason"] is None


@pytest.mark.parametrize(
    ("parameters", "count"),
    [({"min_tokens": 30}, 31), ({"ignore_eos": True, "max_tokens": 40}, 40)],
)
def test_more_text_is_written_when_it_is_asked_for(parameters: dict[str, Any], count: int) -> None:
    assert answer("Hello", **parameters)["usage"]["completion_tokens"] == count


def test_chat_logprobs_stand_for_the_tokens() -> None:
    (choice,) = answer("Hé", logprobs=True, top_logprobs=3)["choices"]
    entries = choice["logprobs"]["content"]

    assert "".join(entry["token"] for entry in entries) == choice["message"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode().endswith('"Hé".')
    assert {len(entry["top_logprobs"]) for entry in entries} == {3}
    assert all(entry["top_logprobs"][0]["token"] == entry["token"] for entry in entries)
    assert all(entry["logprob"] < 0 for entry in entries)


def test_streamed_logprobs_come_with_their_token() -> None:
    streamed = [one for one in deltas("Hello", logprobs=True) if one["logprobs"]]

    assert len(streamed) > 3
    for one in streamed:
        assert one["logprobs"]["content"][0]["token"] == one["delta"]["content"]


def test_text_logprobs_are_parallel_lists() -> None:
    (choice,) = render({"prompt": "The sky is", "echo": True, "logprobs": 2})["choices"]
    found = choice["logprobs"]

    assert choice["text"].startswith("The sky is")
    assert "".join(found["tokens"]) == choice["text"]
    assert found["token_logprobs"][0] is None
    assert found["top_logprobs"][0] is None
    assert {len(one) for one in found["top_logprobs"][1:]} == {2}
    assert found["text_offset"][:3] == [0, 3, 7]


def test_many_prompts_and_samples_are_numbered_by_position() -> None:
    body = {"prompt": ["The sky is", "One, two,", "Water is"], "n": 2, "max_tokens": 40}

    found = render(body)

    texts = [choice["text"] for choice in found["choices"]]
    assert [choice["index"] for choice in found["choices"]] == list(range(6))
    assert ["sky" in text for text in texts] == [True, True, False, False, False, False]
    assert ["Water" in text for text in texts] == [False, False, False, False, True, True]
    assert len(set(texts)) == 6
    # each prompt counts once, as in vLLM
    assert found["usage"]["prompt_tokens"] == render({**body, "n": 1})["usage"]["prompt_tokens"]


def test_text_completions_end_after_sixteen_tokens_by_default() -> None:
    found = render({"prompt": "word " * 30})

    assert found["usage"]["completion_tokens"] == 16
    assert found["choices"][0]["finish_reason"] == "length"


def test_token_ids_are_a_prompt() -> None:
    one = render({"prompt": [504, 6376, 314]})
    two = render({"prompt": [[504, 6376], [314]]})

    assert len(one["choices"]) == 1
    assert one["usage"]["prompt_tokens"] == 3
    assert len(two["choices"]) == 2


def test_echo_without_new_tokens_gives_the_prompt_back() -> None:
    (choice,) = render({"prompt": "x y", "max_tokens": 0, "echo": True})["choices"]

    assert choice["text"] == "x y"


def test_thinking_comes_first_and_counts() -> None:
    found = answer("Hello", **THINK)
    thought = found["choices"][0]["message"]

    assert thought["content"] == 'You said: "Hello".'
    assert "Hello" in thought["reasoning"]
    details = found["usage"]["completion_tokens_details"]
    assert 0 < details["reasoning_tokens"] < found["usage"]["completion_tokens"]


def test_an_answer_cut_while_thinking_has_no_content() -> None:
    (choice,) = answer("Hello", max_tokens=3, **THINK)["choices"]

    assert choice["message"]["content"] is None
    assert choice["message"]["reasoning"] == "The user says"
    assert choice["finish_reason"] == "length"


def test_a_budget_ends_the_thinking() -> None:
    found = message("Hello", thinking_token_budget=3, **THINK)

    assert found["reasoning"] == "The user"
    assert found["content"] == 'You said: "Hello".'


def test_thinking_can_be_hidden_or_unknown_to_the_server() -> None:
    model = SyntheticModel(reasoning=False)

    assert message("Hello", include_reasoning=False, **THINK)["reasoning"] is None
    assert message("Hello", model, **THINK)["reasoning"] is None


def test_thinking_goes_before_calls_and_json() -> None:
    found = message("Hello", response_format={"type": "json_object"}, **THINK)

    assert found["reasoning"]
    assert json.loads(found["content"])


@pytest.mark.parametrize(
    ("text", "parameters", "expected"),
    [
        ("Ana is 31", {"response_format": {"type": "json_object"}}, {"answer": "Ana"}),
        (
            "A joke as JSON with 'setup' and 'punchline' keys.",
            {"response_format": {"type": "json_object"}},
            ["setup", "punchline"],
        ),
        (
            "Invent a person with a name and an age, as JSON.",
            {"response_format": {"type": "json_object"}},
            ["name", "age"],
        ),
        ("n is 5", {"structured_outputs": {"json": {"type": "integer"}}}, 5),
        ("n is 5", {"structured_outputs": {"json": '{"type": "integer"}'}}, 5),
        (
            'Ana is 31. JSON schema: {"type": "object", "properties": {"age": {"type": "integer"}}}',
            {},
            {"age": 31},
        ),
    ],
)
def test_json_follows_its_schema_or_the_prompt(
    text: str, parameters: dict[str, Any], expected: Any
) -> None:
    content = json.loads(message(text, **parameters)["content"])

    assert content == expected or list(content) == expected


@pytest.mark.parametrize(
    ("constraint", "text", "expected"),
    [
        ({"choice": ["four", "three"]}, "Is it three?", "three"),
        ({"choice": ["four", "three"]}, "Hello", "four"),
        ({"regex": "[0-9]{3}-[0-9]{2}"}, "It is 555-12.", "555-12"),
        ({"regex": "[0-9]{3}-[0-9]{2}"}, "Hello", "000-00"),
        ({"grammar": 'root ::= "yes" | "no"'}, "Hello", "yes"),
        ({"structural_tag": "{}"}, "Hello", 'You said: "Hello".'),
    ],
)
def test_structured_outputs_are_kept(constraint: dict[str, Any], text: str, expected: str) -> None:
    assert message(text, structured_outputs=constraint)["content"] == expected


def test_json_is_cut_like_text() -> None:
    (choice,) = answer("Hello", response_format={"type": "json_object"}, max_tokens=3)["choices"]

    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].startswith('{"')


def test_images_are_counted_and_described_in_order() -> None:
    parts = [image(png(255, 0, 0)), image("https://example.com/a.png"), image(png(0, 0, 250, 8, 8))]

    content = render({"messages": with_parts(*parts)})["choices"][0]["message"]["content"]

    assert content == (
        'You said: "Look:". With it came image 1: image/png 3x2 red; '
        "image 2: image from example.com; image 3: image/png 8x8 blue."
    )


def test_schemas_are_filled_from_what_the_images_show() -> None:
    colours = {"enum": ["blue", "red", "white"]}
    schema = {"type": "object", "properties": {"first": colours, "second": colours}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    messages = with_parts(image(png(250, 5, 0)), image(png(0, 0, 255)))

    content = render({"messages": messages, "response_format": wanted})["choices"][0]["message"]

    assert json.loads(content["content"]) == {"first": "red", "second": "blue"}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF0000WEBP", "image/webp"),
        (b"\x89PNG\r\n\x1a\n" + bytes(30), "image/png 0x0"),
    ],
)
def test_other_images_are_known_by_their_first_bytes(data: bytes, kind: str) -> None:
    url = f"data:image/x;base64,{base64.b64encode(data).decode()}"

    content = render({"messages": with_parts({"image_url": url})})["choices"][0]["message"]

    assert content["content"].endswith(f"image 1: {kind}.")


def test_audio_and_video_are_taken_where_the_model_has_ears_and_time() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    film = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAAAAAA"}}
    body = {"messages": with_parts(sound, film)}
    model = SyntheticModel(audio=True, video=True)

    content = render(body, model)["choices"][0]["message"]["content"]

    assert content.endswith("audio 1: audio/wav 3 bytes; video 1: video/mp4 6 bytes.")
    assert isinstance(send(body), ContainerFault)


def test_usage_counts_messages_tools_and_media() -> None:
    plain = answer("Hello")["usage"]["prompt_tokens"]
    function = {"type": "function", "function": {"name": "f", "description": "does much"}}
    pictured = render({"messages": with_parts(image(png(0, 0, 0)))})["usage"]["prompt_tokens"]

    assert answer("Hello", tools=[function])["usage"]["prompt_tokens"] > plain + 5
    assert pictured > 64


def test_the_served_name_is_in_the_answer() -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], "model": "other"}

    assert render(body, SyntheticModel(model="tiny"))["model"] == "tiny"


def test_nulls_and_numbers_in_text_are_read_as_vllm_reads_them() -> None:
    found = answer("Hello", max_tokens="2", temperature="0.5", n=None, stop=None, stream="false")

    assert found["usage"]["completion_tokens"] == 2


def test_top_logprobs_beyond_the_known_tokens_stay_different() -> None:
    (choice,) = answer("Hello", logprobs=True, top_logprobs=20, max_tokens=1)["choices"]

    ranked = choice["logprobs"]["content"][0]["top_logprobs"]

    assert len({entry["token"] for entry in ranked}) == 20
    assert [entry["logprob"] for entry in ranked] == sorted(
        (entry["logprob"] for entry in ranked), reverse=True
    )


def test_a_long_question_is_repeated_from_its_end() -> None:
    content = message("word " * 300 + "question?")["content"]

    assert len(content) < 500
    assert content.endswith('question?".')


def test_a_broken_picture_has_no_colour() -> None:
    whole = base64.b64decode(png(255, 0, 0).partition(",")[2])
    broken = base64.b64encode(whole.replace(b"IDAT", b"XXXX")).decode()
    messages = with_parts(image(f"data:image/png;base64,{broken}"))

    content = render({"messages": messages})["choices"][0]["message"]["content"]

    assert content.endswith("image 1: image/png 3x2.")
