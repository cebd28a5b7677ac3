"""Probe a deployment and print a table: `python -m tests.live.probe --url https://… --key … [--bucket NAME]`.

It runs a dozen short programs and stores a few small files, which expire. Nothing of the account is changed.
`ok` held; `open` is what a layer would stop that the service itself reports as not active there; `FAILED` is an
expectation that did not hold, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from typing import TextIO

import httpx

from tests.live.checks import CHECKS, Check
from tests.live.target import Failed, Open, Skipped, Target


@dataclass(frozen=True, slots=True)
class Row:
    """One check's outcome."""

    name: str
    verdict: str
    seen: str


def judge(check: Check, target: Target) -> Row:
    """Make one check."""
    name = check.__name__.replace("_", " ")
    try:
        return Row(name, "ok", check(target))
    except Skipped as reason:
        return Row(name, "skipped", f"needs {reason}")
    except Open as what:
        return Row(name, "open", str(what))
    except Failed as what:
        return Row(name, "FAILED", str(what))
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError) as error:
        return Row(name, "FAILED", f"no answer that can be read: {type(error).__name__}")


def probe(target: Target, out: TextIO) -> int:
    """Make all checks, a line each. The exit code: 1 where one failed."""
    rows = []
    for check in CHECKS:
        row = judge(check, target)
        rows.append(row)
        print(f"{row.verdict:<8} {row.name:<16} {row.seen}", file=out, flush=True)
    failed = sum(row.verdict == "FAILED" for row in rows)
    print(f"{target.kind}: {len(rows)} checks, {failed} failed", file=out)
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.probe", description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="address of the service: the outputs Url and StreamUrl")
    parser.add_argument("--key", default=os.environ.get("WORKROOM_KEY"), help="an API key; default: WORKROOM_KEY")
    parser.add_argument("--isolation", choices=("user", "session", "project"), default="user", help="as deployed")
    parser.add_argument("--burst", type=int, default=0, help="runs to send at once: more than ExecutorConcurrency")
    parser.add_argument("--bucket", help="the output BucketName: checks the bucket's rules with your credentials")
    parser.add_argument("--region", help="region of the bucket; default: your AWS configuration's")
    options = parser.parse_args(arguments)
    if not options.key:
        parser.error("--key or WORKROOM_KEY is needed")
    target = Target(options.url, options.key, options.isolation, options.burst, options.bucket, options.region)
    try:
        return probe(target, sys.stdout)
    finally:
        target.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
