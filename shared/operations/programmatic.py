"""Programmatic tool calling is declared, admitted and refused with one clear answer (exec.md A8.8)."""

from __future__ import annotations

from pydantic import Field

from shared.errors import Code, Failure
from shared.operations.base import Call, Model, Nothing, Route, operation
from shared.operations.room import Room


class Accepted(Model):
    """The cancellation was taken note of."""

    status: str = Field(description="`accepted`.")


@operation(
    "exec.programmatic",
    route=Route("POST", ("/v1/exec/programmatic", "/v1/exec/exec/programmatic")),
    status=501,
    errors=(Code.UNSUPPORTED,),
)
def programmatic(room: Room, call: Call, data: Nothing) -> Nothing:
    """Run a program that calls tools of the client. This server does not offer it and answers 501.

    The protocol suspends a run on each tool call and resumes it from a continuation token.
    """
    raise Failure(
        Code.UNSUPPORTED,
        "Programmatic tool calling is not offered here: its protocol suspends a run on each tool call and resumes it "
        "from a continuation token. Run whole programs with POST /v1/exec.",
    )


@operation(
    "exec.programmatic_cancel",
    route=Route("POST", ("/v1/exec/programmatic/cancel", "/v1/exec/exec/programmatic/cancel")),
    status=202,
)
def cancel_programmatic(room: Room, call: Call, data: Nothing) -> Accepted:
    """Cancel a programmatic run. It is always accepted: a run that does not exist needs no cancelling."""
    return Accepted(status="accepted")
