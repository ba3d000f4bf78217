"""Images with a real vLLM, whose small model knows six plain colours."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from PIL import Image

from langchain_sagemaker_vllm import ChatSageMakerVLLM
from llama_index_sagemaker_vllm import SageMakerVLLM
from sagemaker_vllm import SageMakerVLLMClient, chat_request, image_part
from tests.real_vllm.conftest import Ask, Endpoint
from tests.real_vllm.material import (
    COLOURS,
    colours_schema,
    picture,
    picture_part,
    schema_format,
    text_part,
    user,
)

pytestmark = pytest.mark.images

QUESTION = "What colour is this picture? "
ONE = schema_format(colours_schema("picture_1"))
TWO = schema_format(colours_schema("picture_1", "picture_2"))


def one(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [user([text_part(QUESTION), part])]


@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_is_seen(endpoint: Endpoint, colour: str) -> None:
    parameters = {"temperature": 0, "max_tokens": 40, "response_format": ONE}
    request = chat_request(one(picture_part(colour)), parameters=parameters)

    completion = SageMakerVLLMClient(**endpoint.settings).chat(request)

    assert json.loads(completion.text) == {"picture_1": colour}


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_image_is_seen(ask: Ask, kind: Any) -> None:
    answer = ask(one(picture_part("blue", kind)), max_tokens=40, response_format=ONE)

    assert json.loads(answer.text) == {"picture_1": "blue"}


@pytest.mark.parametrize("colours", [("red", "blue"), ("blue", "red")], ids=str)
def test_images_are_seen_in_their_order(ask: Ask, colours: tuple[str, str]) -> None:
    first, second = colours
    parts = [
        text_part("picture_1: "),
        picture_part(first),
        text_part("\npicture_2: "),
        picture_part(second),
    ]

    answer = ask([user(parts)], max_tokens=60, response_format=TWO)

    assert json.loads(answer.text) == {"picture_1": first, "picture_2": second}


def test_image_of_the_latest_turn_is_seen(ask: Ask) -> None:
    turns = [
        user([text_part("Look: "), picture_part("red")]),
        {"role": "assistant", "content": "It is red."},
        user([text_part(QUESTION), picture_part("blue")]),
    ]

    answer = ask(turns, max_tokens=40, response_format=ONE)

    assert json.loads(answer.text) == {"picture_1": "blue"}


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(picture("red"))
    return path


def test_image_part_takes_a_path_bytes_and_a_picture(endpoint: Endpoint, photo: Path) -> None:
    client = SageMakerVLLMClient(**endpoint.settings)
    parameters = {"temperature": 0, "max_tokens": 40, "response_format": ONE}

    seen = [
        client.chat(chat_request(one(image_part(source)), parameters=parameters)).text
        for source in (photo, str(photo), photo.read_bytes(), Image.open(photo))
    ]

    assert [json.loads(text) for text in seen] == [{"picture_1": "red"}] * 4


@pytest.mark.parametrize(
    "form",
    ["block", "url", "source"],
)
def test_langchain_image_blocks_are_seen(endpoint: Endpoint, form: str) -> None:
    part = picture_part("red")
    url = part["image_url"]["url"]
    content = url.partition(",")[2]
    blocks: dict[str, dict[str, Any]] = {
        "block": {"type": "image", "base64": content, "mime_type": "image/png"},
        "url": part,
        "source": {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": content},
        },
    }
    model = ChatSageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=40)

    message = model.invoke([HumanMessage([text_part(QUESTION), blocks[form]])], response_format=ONE)

    assert json.loads(str(message.text)) == {"picture_1": "red"}


@pytest.mark.parametrize("form", ["bytes", "path"])
def test_llama_index_image_blocks_are_seen(endpoint: Endpoint, photo: Path, form: str) -> None:
    block = ImageBlock(image=photo.read_bytes()) if form == "bytes" else ImageBlock(path=photo)
    model = SageMakerVLLM(**endpoint.settings, temperature=0, max_tokens=40)

    response = model.chat(
        [ChatMessage(role="user", blocks=[TextBlock(text=QUESTION), block])],
        response_format=ONE,
    )

    assert json.loads(response.message.content or "") == {"picture_1": "red"}
