"""`make bench`: measure the running service and write the table to docs/benchmarks.md.

Numbers are medians in milliseconds on a machine that is shared with the client; compare inside a table, not across.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from sandbox_image.languages import LANGUAGES
from sandbox_image.locate import find_root
from shared.settings import Settings
from tests.bench import measures
from tests.bench.agents import agents
from tests.bench.measures import Row, phase
from tests.bench.service import Service, service

TARGET = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
DEPLOYED = "## The deployment"
MIB = 1 << 20


def main() -> None:
    """Measure everything; `--quick` takes few rounds and writes nothing."""
    parser = argparse.ArgumentParser(description="Measure the service.")
    parser.add_argument("--quick", action="store_true", help="few rounds, print only")
    parser.add_argument("--langs", default=",".join(LANGUAGES), help="languages, separated by commas")
    options = parser.parse_args()
    rounds = 3 if options.quick else 15
    settings = Settings.read(os.environ)
    root = str(settings.root or find_root(settings.cache))
    with service() as running:
        text = report(running, root, options.langs.split(","), rounds)
    print(text)
    if not options.quick:
        TARGET.write_text(text + kept())


def kept() -> str:
    """What the page has of the deployment: measured by other commands, and kept when this one writes."""
    _, mark, rest = TARGET.read_text().partition(DEPLOYED)
    return f"\n{mark}{rest}" if mark else ""


def report(running: Service, root: str, langs: Sequence[str], rounds: int) -> str:
    """All measurements as a Markdown page."""
    with running.client() as client:
        layers = client.get("/v1/health").json()["layers"]
    active = ", ".join(name for name, layer in layers.items() if layer["active"])
    idle_service, idle_all = running.memory(), running.all_memory()
    seconds = 3.0 if rounds < 10 else 10.0
    parts = [
        "# Benchmarks\n\nMade by `make bench`; client and service share the machine. Medians in milliseconds. Compare "
        "inside a table: machines are noisy.\n\n"
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, kernel {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}. Active sandbox layers: {active}.\n\n"
        f"Idle memory: {idle_service:.0f} MB the service process, {idle_all:.0f} MB with its executor.\n",
        table(
            "A warm hello over HTTP beside the bare command, in turn",
            ["language", "Workroom", "bare", "over it", "ratio"],
            phase("languages", lambda: measures.languages(running, root, langs, rounds)),
        ),
        table(
            "Python hellos from clients at once",
            ["clients", "runs a second", "p50", "p99", "errors"],
            phase("clients", lambda: measures.clients(running, (1, 8, 32), seconds)),
        ),
        table(
            "Bash hello in a session",
            ["workspace", "p50", "over no files"],
            phase("1,000 files", lambda: measures.thousand_files(running, rounds)),
        ),
        table(
            "Transfers; peak is the service process above its memory before, in MB",
            ["size", "upload", "download", "peak"],
            phase("transfers", lambda: measures.transfers(running, (MIB, 20 * MIB, 100 * MIB), max(3, rounds // 3))),
        ),
        table(
            "The Agents API; peak is the service process above its memory before, in MB",
            ["what", "ms", "peak"],
            phase("agents", lambda: agents(running, rounds)),
        ),
    ]
    return "\n".join(parts)


def table(title: str, head: Row, rows: Sequence[Row]) -> str:
    """A Markdown table under a heading."""
    lines = [f"## {title}\n", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
