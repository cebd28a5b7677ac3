"""The engine `program:<lang>`: the message is the program, its output the answer (agents.md 11.32)."""

from __future__ import annotations

from shared.executor.wire import LANGS
from shared.operations.agents.engine import Done, EngineTable, Outcome, Said, Turn

PREFIX = "program:"


class ProgramEngine:
    """Runs each batch of messages as one program: all its texts, joined by newline."""

    at_once = True

    def run(self, turn: Turn) -> Outcome:
        """See Engine.run. A program that fails is a failed command of a Turn that completes."""
        lang = str(turn.agent["model"]).removeprefix(PREFIX)
        for messages in turn.input():
            texts = [part["text"] for message in messages for part in message["content"] if "text" in part]
            code = "\n".join(texts)
            turn.program(lang, code, Said(command=code, speak=True))
        return Done()


PROGRAMS = EngineTable({PREFIX: ProgramEngine()}, tuple(PREFIX + lang for lang in LANGS))
"""The engines that need no provider."""
