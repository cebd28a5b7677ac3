"""The demonstration: one program in each language through HTTP, against a running service.

Ends with status 1 when a program did not print what it should, so that a broken machine is seen at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import httpx

from functions.cli.demo_programs import PROGRAMS, Program
from shared.settings import Settings

_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    title: str
    version: str
    output: str
    ms: str
    good: bool


def main() -> int:
    """Run it against the service of the settings; the exit status."""
    parser = argparse.ArgumentParser(description="Run one program in each language against a running service.")
    parser.add_argument("--wait", action="store_true", help="wait for a service that is just starting")
    wait = parser.parse_args().wait
    settings = Settings.read(os.environ)
    address = settings.url or f"http://{settings.host}:{settings.port}"
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        if not _alive(client, os.getppid() if wait else None):
            print(f"no service answers at {address}: start one with `make run`", file=sys.stderr)
            return 1
        key = settings.key or (settings.data / "dev.key").read_text().strip()
        client.headers["X-API-Key"] = key
        good = show(client)
    print(f"\n  address  {address}\n  key      {key}\n  try      {curl(address, key)}\n", flush=True)
    return 0 if good else 1


def show(client: httpx.Client) -> bool:
    """Run every program and print the table; whether all did as they should."""
    health: dict[str, Any] = client.get("/v1/health").raise_for_status().json()
    if not health["executor"]["ready"]:
        print(f"no program can be run: {health['executor']['why']}", file=sys.stderr)
        return False
    languages: dict[str, Any] = health["languages"]
    print(f"\n  {'language':<11} {'version':<28} {'output':<22} {'ms':>6}\n  {'-' * 70}")
    rows = []
    for program in PROGRAMS:
        row = _row(client, program, languages.get(program.lang, {"present": False}))
        print(f"  {row.title:<11} {row.version:<28.28} {row.output:<22.22} {row.ms:>6}", flush=True)
        rows.append(row)
    return all(row.good for row in rows)


def _row(client: httpx.Client, program: Program, language: dict[str, Any]) -> Row:
    if not language["present"]:
        return Row(program.title, "missing", f"install {language.get('packages', '')}", "", good=True)
    begun = time.perf_counter()
    answer = client.post("/v1/exec", json={"lang": program.lang, "code": program.code})
    ms = f"{(time.perf_counter() - begun) * 1000:.0f}"
    if answer.status_code != 200:
        return Row(program.title, language["version"], f"HTTP {answer.status_code}", ms, good=False)
    ran = answer.json()
    good = ran["code"] == 0 and ran["stdout"] == program.prints
    shown = (ran["stdout"] if good else "failed: " + ran["stderr"]).strip().replace("\n", " ")
    return Row(program.title, language["version"], shown, ms, good)


def curl(address: str, key: str) -> str:
    """A line to paste."""
    return (
        f"curl -s {address}/v1/exec -H 'X-API-Key: {key}' "
        """-d '{"lang":"py","code":"print(6*7)"}'"""
    )


def _alive(client: httpx.Client, parent: int | None) -> bool:
    """Whether the service answers; with `parent`, waiting for as long as that process lives."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            if client.get("/v1/health").status_code == 200:
                return True
        except httpx.TransportError:
            pass
        if parent is None or os.getppid() != parent or time.monotonic() > deadline:
            return False
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
