"""Talk to vLLM on SageMaker through LangChain: a stream, a patient record, text completions.

make demo                                                         a small model, on this machine
python examples/quickstart.py --endpoint-name NAME --region REGION     an endpoint of yours
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from langchain_core.messages import AIMessageChunk
from pydantic import BaseModel, Field

from langchain_sagemaker_vllm import ChatSageMakerVLLM, SageMakerVLLM
from sagemaker_vllm.emulator import Emulator, demo_model

QUESTION = "Explain in three sentences why the sky is blue."
NOTE = "Maria Lopez, 42 years old, came in with a fever and a dry cough."
PROMPTS = ("The capital of France is", "The opposite of hot is")
WIDTH = 88


class Patient(BaseModel):
    """A patient record."""

    name: str
    age: int = Field(description="in years")
    symptoms: list[str]


def main() -> None:
    """Run the three parts on the endpoint that the command line or the environment names."""
    parser = argparse.ArgumentParser(description="Try a vLLM endpoint on Amazon SageMaker.")
    parser.add_argument(
        "--endpoint-name", default="", help="default: environment's SAGEMAKER_ENDPOINT_NAME"
    )
    parser.add_argument("--region", help="AWS region; default: as boto3 finds it")
    parser.add_argument("--demo", action="store_true", help="a small model on this machine")
    arguments = parser.parse_args()

    with local_endpoint() if arguments.demo else nullcontext():
        chat = ChatSageMakerVLLM(
            endpoint_name=arguments.endpoint_name,
            region_name=arguments.region,
            temperature=0,
            max_tokens=200,
        )
        llm = SageMakerVLLM(
            endpoint_name=arguments.endpoint_name,
            region_name=arguments.region,
            temperature=0,
            max_tokens=16,
            stop=["\n"],
        )
        stream_an_answer(chat)
        extract_a_record(chat)
        complete_two_prompts(llm)
    if arguments.demo:
        print("\nYour own endpoint: examples/quickstart.py --endpoint-name NAME --region REGION")


@contextmanager
def local_endpoint() -> Iterator[None]:
    """Serve a small model on this machine as SageMaker would, and lead boto3 there."""
    with Emulator(gguf=demo_model()) as emulator:
        os.environ.update(emulator.environment())
        print(
            f"SmolLM2-135M-Instruct runs on this machine, as SageMaker endpoint at {emulator.url}"
        )
        yield


def stream_an_answer(chat: ChatSageMakerVLLM) -> None:
    """Print an answer as it comes, then what it took."""
    headline("A streamed answer", QUESTION)
    answer = AIMessageChunk(content="")
    column = 0
    for chunk in chat.stream(QUESTION):
        answer += chunk
        text = str(chunk.text)
        if text.startswith(" ") and column + len(text) > WIDTH:
            print()
            text, column = text.lstrip(), 0
        print(text, end="", flush=True)
        column += len(text)
    if answer.usage_metadata:
        print("\n\n{input_tokens} tokens in, {output_tokens} out".format(**answer.usage_metadata))


def extract_a_record(chat: ChatSageMakerVLLM) -> None:
    """Turn a sentence into a `Patient`; the server's JSON follows the schema of the class."""
    headline("A sentence turned into a Pydantic object", NOTE)
    patient = chat.with_structured_output(Patient).invoke(f"Extract the patient record: {NOTE}")
    print(repr(patient))


def complete_two_prompts(llm: SageMakerVLLM) -> None:
    """Complete two prompts, which travel in one request."""
    headline("Two prompts completed in one request")
    for prompt, text in zip(PROMPTS, llm.batch([*PROMPTS]), strict=True):
        print(f"{prompt} ... {text.strip()}")


def headline(title: str, text: str = "") -> None:
    """Print what comes next."""
    print(f"\n── {title} {'─' * (WIDTH - len(title) - 4)}")
    if text:
        print(f"> {text}\n")


if __name__ == "__main__":
    main()
