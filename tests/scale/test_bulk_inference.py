"""The example of bulk inference, on a local Ray with two workers (`make test-scale`).

Ray starts daemons of its own and warns at will, so the example runs as users run it: as a process.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagemaker_vllm.emulator import Emulator, RecordedRequest, Reply, ServiceFault

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "scale" / "bulk_inference.py"
COUNT = 60


def answer(request: RecordedRequest) -> Reply | ServiceFault:
    question = request.json["messages"][0]["content"]
    if question == "question 13" and not os.environ.get("LUCKY"):
        return ServiceFault("ValidationError", 400, "an unlucky question")
    return Reply(f"answer to {question}")


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(script=answer) as emulator:
        yield emulator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"q{n}", "question": f"question {n}"} for n in range(COUNT)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "questions.jsonl").write_text(lines, encoding="utf-8")
    return tmp_path


def run(folder: Path, emulator: Emulator) -> str:
    command = [sys.executable, str(SCRIPT), "questions.jsonl", "answers"]
    done = subprocess.run(
        [*command, "--actors", "2", "--max-concurrency", "8", "--block", "10"],
        env={
            **os.environ,
            **emulator.environment(),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(ROOT),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return str(done.stdout)


def rows(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "answers").glob("*.jsonl"))
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def test_a_stopped_job_asks_only_what_has_no_answer(
    folder: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(folder, emulator)

    answers = {row["id"]: row.get("answer") for row in rows(folder)}
    assert f"{COUNT} asked, 1 failed" in first
    assert answers.pop("q13") is None
    assert answers == {f"q{n}": f"answer to question {n}" for n in range(COUNT) if n != 13}
    assert len(list((folder / "answers").glob("*.jsonl"))) >= COUNT // 10
    assert not list((folder / "answers").glob("*.tmp"))

    # As if the job had been stopped before one of the blocks was written.
    lost = next(
        p for p in (folder / "answers").glob("*.jsonl") if "q13" not in p.read_text("utf-8")
    )
    left = len(lost.read_text("utf-8").splitlines()) + 1
    lost.unlink()
    monkeypatch.setenv("LUCKY", "1")
    before = len(emulator.requests)

    second = run(folder, emulator)

    assert f"{left} asked, 0 failed" in second
    assert len(emulator.requests) - before == left
    assert {row["id"] for row in rows(folder) if "answer" in row} == {f"q{n}" for n in range(COUNT)}
