"""Whether the service is alive, and to an admitted caller whether each part of it works (cases.md G8, F19)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shared.executor.port import ExecutorFailed, ExecutorHealth
from shared.operations import names
from shared.operations.base import Call, Nothing, Route, Sparse, operation
from shared.operations.room import Room
from shared.store.ports import StoreUnavailable


class LanguageReport(Sparse):
    """One language."""

    present: bool = Field(description="Whether its toolchain is installed.")
    version: str = Field(description="The version that the toolchain prints; empty where it is missing.")
    packages: str | None = Field(None, description="What would install a missing one.")


class LayerReport(Sparse):
    """One sandbox layer."""

    active: bool = Field(description="True when an attack failed with the layer and succeeded without it.")
    required: bool = Field(description="Whether no program runs without it.")
    detail: str = Field(description="What the attack showed.")


class StoreReport(Sparse):
    """The state and object stores."""

    ready: bool = Field(description="Whether they answered.")


class ExecutorReport(Sparse):
    """The executor."""

    ready: bool = Field(description="Whether it can run programs.")
    why: str | None = Field(None, description="What is missing, where it cannot.")
    running: int = Field(description="Programs that run now.")
    capacity: int = Field(description="Programs that can run at once.")


class Health(Sparse):
    """The state of the service. Without a credential only `status`."""

    status: Literal["ok", "degraded"] = Field(description="ok, or degraded when a part does not work.")
    store: StoreReport | None = Field(None, description="The stores, to an admitted caller.")
    executor: ExecutorReport | None = Field(None, description="The executor, to an admitted caller.")
    languages: dict[str, LanguageReport] | None = Field(None, description="Each language, to an admitted caller.")
    layers: dict[str, LayerReport] | None = Field(None, description="Each sandbox layer, to an admitted caller.")


@operation("health.get", route=Route("GET", ("/v1/health", "/v1/exec/health")), open=True)
def health(room: Room, call: Call, data: Nothing) -> Health:
    """Tell whether the service is alive. Anyone may ask; an admitted caller is told of each part.

    The parts are the store, the executor, every language with its version, and every sandbox layer. A service that
    answers but cannot run programs is `degraded`.
    """
    if call.caller is None:
        return Health(status="ok")
    store, executor = _store(room), _executor(room)
    return Health(
        status="ok" if store and executor.ready else "degraded",
        store=StoreReport(ready=store),
        executor=ExecutorReport(
            ready=executor.ready,
            why=executor.why or None,
            running=executor.running,
            capacity=executor.capacity,
        ),
        languages={
            name: LanguageReport(
                present=language.present,
                version=language.version,
                packages=None if language.present else language.packages,
            )
            for name, language in executor.languages.items()
        },
        layers={
            name: LayerReport(active=layer.active, required=layer.required, detail=layer.detail)
            for name, layer in executor.layers.items()
        },
    )


def _store(room: Room) -> bool:
    try:
        room.state.get(names.SYSTEM, names.project_row("none"))
        room.objects.head(f"{names.project('none')}/none")
    except StoreUnavailable:
        return False
    return True


def _executor(room: Room) -> ExecutorHealth:
    try:
        return room.executor.health()
    except ExecutorFailed as error:
        return ExecutorHealth(
            ready=False, why=error.why or "it cannot be reached", languages={}, layers={}, running=0, capacity=0
        )
