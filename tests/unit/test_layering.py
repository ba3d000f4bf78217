"""Who may import whom, read from the source without running it."""

import ast
import graphlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = "sagemaker_vllm"
EMULATOR = "sagemaker_vllm.emulator"
# `pydantic_core` and `typing_extensions` are parts of pydantic.
ADAPTERS = {
    "langchain_sagemaker_vllm": {
        "langchain_core",
        "pydantic",
        "pydantic_core",
        "typing_extensions",
    },
    "llama_index_sagemaker_vllm": {"llama_index.core"},
}
# botocore lets exceptions of its urllib3 through.
CORE_REQUIREMENTS = {"boto3", "botocore", "urllib3", "aiohttp", "orjson"}
# Loaded on demand: by the backend that runs a model, and by pytest for the fixture.
OPTIONAL = {f"{EMULATOR}._gguf": {"xllamacpp"}, f"{EMULATOR}.pytest_plugin": {"pytest"}}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in (CORE, *ADAPTERS)
    for path in sorted((ROOT / package).rglob("*.py"))
}


def runtime_imports(module: str) -> Iterator[str]:
    """Yield every imported `module` or `module.name`, but for those seen by type checkers only."""
    todo: list[ast.AST] = [ast.parse(MODULES[module].read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}, line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            todo.extend(node.orelse)
        else:
            todo.extend(ast.iter_child_nodes(node))


def imported_modules(module: str) -> set[str]:
    """Return the modules of ours that `module` imports; a name of a package is its `__init__`."""
    found = set()
    for name in runtime_imports(module):
        owner = name if name in MODULES else name.rpartition(".")[0]
        found |= {owner} & MODULES.keys()
    return found


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def foreign_imports(module: str, allowed: set[str]) -> list[str]:
    allowed = allowed | sys.stdlib_module_names
    return [name for name in runtime_imports(module) if not is_within(name, allowed)]


@pytest.mark.parametrize("module", [name for name in MODULES if is_within(name, {CORE})])
def test_core_imports_no_framework(module: str) -> None:
    allowed = {CORE, *CORE_REQUIREMENTS, *OPTIONAL.get(module, ())}

    assert foreign_imports(module, allowed) == []


@pytest.mark.parametrize("module", [name for name in MODULES if not is_within(name, {CORE})])
def test_adapter_imports_its_framework_and_the_core_only(module: str) -> None:
    package = module.partition(".")[0]

    assert foreign_imports(module, {CORE, package, *ADAPTERS[package]}) == []


@pytest.mark.parametrize("module", [name for name in MODULES if not is_within(name, {CORE})])
def test_adapter_uses_public_names_of_the_core_only(module: str) -> None:
    import sagemaker_vllm

    used = {name for name in runtime_imports(module) if is_within(name, {CORE})}

    assert used <= {CORE, *(f"{CORE}.{name}" for name in sagemaker_vllm.__all__)}


@pytest.mark.parametrize("module", [name for name in MODULES if not is_within(name, {EMULATOR})])
def test_emulator_is_imported_by_the_command_only(module: str) -> None:
    imported = {name for name in runtime_imports(module) if is_within(name, {EMULATOR})}

    assert not imported or module == f"{CORE}._cli"


def test_modules_import_each_other_in_one_direction() -> None:
    graph = {module: imported_modules(module) for module in MODULES}

    order = list(graphlib.TopologicalSorter(graph).static_order())

    assert set(order) == set(MODULES)
