"""What `sam build` packs: our own code as it lies in the zip, and the packages of others that it imports."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.template.reading import PROJECT, functions, load

IN_THE_ZIP = ("functions", "shared", "sandbox_image")
NOT_IN_THE_ZIP = ("functions/cli", "functions/sandbox", "sandbox_image/toolchains", "sandbox_image/jail")
TARGET = {
    "python_version": "3.13",
    "python_full_version": "3.13.0",
    "platform_machine": "aarch64",
    "sys_platform": "linux",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "os_name": "posix",
    "platform_system": "Linux",
}
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own code, laid out by the same rule as in a build."""
    out = Path(tmp_path_factory.mktemp("packed"))
    subprocess.run(
        ["make", "-s", "-f", "functions/Makefile", "code", f"OUT={out}"], cwd=PROJECT, check=True, timeout=60
    )
    return out


def modules(packed: Path) -> list[str]:
    """Every module of the layout but what runs when it is imported."""
    found = []
    for file in sorted(packed.rglob("*.py")):
        parts = file.relative_to(packed).with_suffix("").parts
        if parts[-1] != "__main__":
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def test_only_what_a_function_imports_is_packed(packed: Path) -> None:
    assert sorted(path.name for path in packed.iterdir()) == sorted([*IN_THE_ZIP, "run.sh"])
    assert [name for name in NOT_IN_THE_ZIP if (packed / name).exists()] == []
    assert sum(path.stat().st_size for path in packed.rglob("*") if path.is_file()) < 3 * MEBIBYTE


def test_the_streaming_functions_handler_may_be_executed(packed: Path) -> None:
    assert os.access(packed / "run.sh", os.X_OK)


def test_every_module_imports_from_the_layout_alone(packed: Path) -> None:
    code = "import importlib, sys\nsys.path.insert(0, sys.argv[1])\n" + (
        "for name in sys.argv[2:]:\n"
        "    module = importlib.import_module(name)\n"
        "    assert module.__file__.startswith(sys.argv[1]), name\n"
    )
    # -P and no PYTHONPATH: the checkout is found nowhere but by the editable install, which comes after the layout.
    environment = {"PATH": os.environ["PATH"], "AWS_DEFAULT_REGION": "eu-central-1"}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code, str(packed), *modules(packed)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=packed,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_handlers_are_packed(packed: Path) -> None:
    handlers = {row["Handler"] for row in functions(load()).values() if "Handler" in row}
    assert len(handlers) == 5
    for handler in handlers - {"run.sh"}:
        assert handler.rpartition(".")[0] in modules(packed)


def named(file: Path) -> list[str]:
    """The requirements of a file, without its comments."""
    return [line for line in file.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def closure(names: list[str]) -> Iterator[str]:
    """All that the packages need on the target, themselves included, by what is installed here."""
    waiting, seen = [Requirement(name) for name in names], set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if (name, frozenset(one.extras)) in seen:
            continue
        seen.add((name, frozenset(one.extras)))
        yield name
        for text in _needs(name):
            other = Requirement(text)
            extras = [{**TARGET, "extra": extra} for extra in ("", *one.extras)]
            if other.marker is None or any(other.marker.evaluate({**each}) for each in extras):
                waiting.append(other)


def _needs(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def test_every_package_of_the_zip_is_pinned() -> None:
    pinned = {canonicalize_name(line.split("==")[0]) for line in named(PROJECT / "constraints.txt")}
    needed = set(closure(named(PROJECT / "functions/requirements.txt")))
    assert needed - pinned == set()
    for name in needed:
        assert distribution(name).version


def test_what_our_code_imports_is_in_the_zip(packed: Path) -> None:
    ours_or_standard = {*IN_THE_ZIP, *sys.stdlib_module_names}
    imported: set[str] = set()
    for file in packed.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
    # For types only, and never loaded: `if TYPE_CHECKING`.
    foreign = {name for name in imported - ours_or_standard if not re.match(r"mypy_boto3|__", name)}
    assert {"fastapi", "boto3", "mangum"} <= foreign
    shipped = set(closure(named(PROJECT / "functions/requirements.txt")))
    providers = packages_distributions()
    missing = [name for name in foreign if not {canonicalize_name(one) for one in providers.get(name, [])} & shipped]
    assert missing == []
