"""Imports go one way (DESIGN §1): functions → operations → domain; ports are handed in, adapters are not imported."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("functions", "shared", "sandbox_image", "tests")


def modules(*folders: str) -> list[tuple[str, Path]]:
    found = []
    for folder in folders:
        path = ROOT / folder
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            found.append((str(file.relative_to(ROOT)), file))
    return found


def imported(file: Path) -> set[str]:
    """Every module that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file.name}: a relative import hides where it goes"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def ours(file: Path) -> set[str]:
    return {name for name in imported(file) if name.split(".")[0] in OURS}


def foreign(file: Path) -> set[str]:
    """Packages that are neither ours nor of the standard library."""
    return {top for name in imported(file) if (top := name.split(".")[0]) not in (*OURS, *sys.stdlib_module_names)}


def below(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize(("name", "file"), modules("shared/domain"))
def test_the_domain_imports_nothing_but_itself_and_does_no_io(name: str, file: Path) -> None:
    assert all(below(module, "shared.domain") for module in ours(file)), name
    tops = {module.split(".")[0] for module in imported(file)}
    assert not tops & {"os", "io", "time", "socket", "threading", "subprocess", "pathlib", "random", "datetime"}, name
    assert foreign(file) == set(), name


@pytest.mark.parametrize(("name", "file"), modules("shared/operations"))
def test_operations_know_ports_and_no_adapter_and_no_door(name: str, file: Path) -> None:
    allowed = (
        "shared.domain", "shared.operations", "shared.errors", "shared.agents_errors", "shared.limits",
        "shared.identity",
        "shared.store.ports", "shared.executor.port", "shared.executor.wire", "shared.executor.judge",
    )  # fmt: skip
    wrong = {module for module in ours(file) if not below(module, *allowed) and module != "shared.executor.wire"}
    assert wrong == set(), name
    assert foreign(file) <= {"pydantic", *(("jwt", "cryptography") if file.name == "jwt.py" else ())}, name


@pytest.mark.parametrize(
    ("name", "file"), modules("shared/store", "shared/executor", "shared/errors.py", "shared/limits.py")
)
def test_adapters_know_nothing_of_operations_and_doors(name: str, file: Path) -> None:
    assert not any(below(module, "shared.operations", "functions", "tests") for module in ours(file)), name


@pytest.mark.parametrize(("name", "file"), modules("sandbox_image"))
def test_the_image_imports_what_the_executor_speaks_and_nothing_else_of_ours(name: str, file: Path) -> None:
    """The wire and the grants of one machine. toolchains/python runs inside the root, as programs do."""
    spoken = ("sandbox_image", "shared.executor.wire", "shared.executor.filegrant")
    assert {module for module in ours(file) if not below(module, *spoken)} == set(), name
    if not name.startswith("sandbox_image/toolchains/python/"):
        assert foreign(file) == set(), name


@pytest.mark.parametrize(("name", "file"), modules("functions/sandbox"))
def test_the_function_that_runs_programs_imports_the_runner_and_the_wire(name: str, file: Path) -> None:
    spoken = ("functions.sandbox", "sandbox_image", "shared.executor.wire")
    assert {module for module in ours(file) if not below(module, *spoken)} == set(), name
    assert foreign(file) == set(), name


@pytest.mark.parametrize(("name", "file"), modules("shared/executor/wire.py", "shared/executor/filegrant.py"))
def test_what_runs_in_the_image_needs_the_standard_library_only(name: str, file: Path) -> None:
    assert foreign(file) == set(), name


@pytest.mark.parametrize(("name", "file"), modules("functions", "shared", "sandbox_image"))
def test_nothing_that_is_shipped_imports_the_tests(name: str, file: Path) -> None:
    assert not any(below(module, "tests") for module in ours(file)), name


def test_the_walk_finds_the_code() -> None:
    assert len(modules("functions", "shared", "sandbox_image")) > 60
