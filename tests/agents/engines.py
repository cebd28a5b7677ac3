"""An engine of the tests: the message is a script, and its Turn waits for functions as the script says.

A script is JSON: `{"calls": [[name, arguments], …]}` waits for these; `{"say": text}` says it; what came of the calls
is said as JSON, `[[success, output, error], …]`, unless the results ask for more by `{"calls": …}` in the first output.
"""

from __future__ import annotations

import json
from typing import Any

from shared.operations.agents.engine import Done, EngineTable, FunctionCall, Outcome, Turn, Waits
from shared.operations.agents.program import PROGRAMS

MODEL = "scripted:engine"


class ToolEngine:
    """The engine port."""

    at_once = False

    def run(self, turn: Turn) -> Outcome:
        """Do what the script says."""
        results = turn.results()
        if results:
            rows = [[result.success, result.output, result.error] for result in results]
            first = rows[0][1]
            if isinstance(first, str) and first.startswith('{"calls"'):
                return _waits(json.loads(first))
            turn.message(json.dumps(rows))
            return Done()
        for messages in turn.input():
            script = json.loads(messages[0]["content"][0]["text"])
            if "think" in script:
                turn.reasoning(script["think"])
            if "calls" in script:
                return _waits(script)
            turn.message(script["say"])
        return Done()


def _waits(script: dict[str, Any]) -> Waits:
    return Waits([FunctionCall(name, arguments) for name, arguments in script["calls"]])


TABLE = EngineTable({**PROGRAMS.by_prefix, "scripted:": ToolEngine()}, (*PROGRAMS.models, MODEL))
"""The product's engines, and this one."""
