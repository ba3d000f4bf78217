"""Answer every question of a data set through an endpoint, on Ray Data.

    pip install '.' 'ray[data]'
    python examples/scale/bulk_inference.py questions.jsonl answers/ --actors 4

The input has one JSON object a line, with `id` and `question`. Every block of answers is written to
a file of its own as soon as it is there. Stop the job and run it again: only what has no answer yet
is asked. docs/scale.md says how many actors, and how many calls in flight.
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import orjson
import ray
import ray.data

from sagemaker_vllm import AsyncSageMakerVLLMClient, SageMakerVLLMError, chat_request


class Answerer:
    """An actor: one client, whose `max_concurrency` calls are in flight at once."""

    def __init__(self, client: AsyncSageMakerVLLMClient, folder: Path) -> None:
        # The client came here as its settings; it connects at the first call.
        self._client = client
        self._folder = folder

    async def __call__(self, block: dict[str, Any]) -> dict[str, Any]:
        pairs = zip(block["id"].tolist(), block["question"].tolist(), strict=True)
        answers = await asyncio.gather(*(self._answer(*pair) for pair in pairs))
        written = self._folder / f"{time.time_ns()}-{answers[0]['id']}"
        await asyncio.to_thread(_write, written, answers)
        return {"failed": ["error" in answer for answer in answers]}

    async def _answer(self, key: str, question: str) -> dict[str, Any]:
        request = chat_request(
            [{"role": "user", "content": question}], parameters={"max_tokens": 200}
        )
        try:
            completion = await self._client.chat(request)
        except SageMakerVLLMError as error:
            # One question that fails must not stop the others; the next run asks it again.
            return {"id": key, "error": f"{type(error).__name__}: {error}"}
        return {"id": key, "answer": completion.text, "usage": completion.response["usage"]}


def _write(path: Path, answers: list[dict[str, Any]]) -> None:
    """Write a block so that a reader sees all of it or nothing."""
    lines = b"".join(orjson.dumps(answer) + b"\n" for answer in answers)
    path.with_suffix(".tmp").write_bytes(lines)
    path.with_suffix(".tmp").rename(path.with_suffix(".jsonl"))


def answered(folder: Path) -> set[str]:
    """Return the ids that have an answer."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return {row["id"] for row in map(orjson.loads, lines) if "answer" in row}


def run(questions: Path, folder: Path, *, actors: int, max_concurrency: int, block: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    done = answered(folder)
    print(f"{len(done)} questions have an answer already")
    # Endpoint, region and credentials are found in the environment, as by boto3. A throttled call
    # waits and is sent again.
    client = AsyncSageMakerVLLMClient(max_concurrency=max_concurrency, max_retries=8)
    answers = (
        ray.data.read_json(str(questions))
        .filter(lambda row: row["id"] not in done)
        .repartition(target_num_rows_per_block=block)
        .map_batches(
            Answerer,
            fn_constructor_args=(client, folder.resolve()),
            batch_size=block,
            compute=ray.data.ActorPoolStrategy(size=actors),
            # Actors wait for the endpoint nearly all the time.
            num_cpus=0.25,
        )
    )
    began, count, failed = time.monotonic(), 0, 0
    for batch in answers.iter_batches(batch_size=None):
        count += len(batch["failed"])
        failed += int(batch["failed"].sum())
        rate = count / (time.monotonic() - began)
        print(f"{count} asked, {failed} failed, {rate:.1f} a second", flush=True)
    print(f"{len(answered(folder))} answers in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("questions", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--max-concurrency", type=int, default=64, help="calls in flight per actor")
    parser.add_argument("--block", type=int, default=256, help="questions per file of answers")
    options = parser.parse_args()
    ray.init(include_dashboard=False)
    run(
        options.questions,
        options.answers,
        actors=options.actors,
        max_concurrency=options.max_concurrency,
        block=options.block,
    )


if __name__ == "__main__":
    main()
