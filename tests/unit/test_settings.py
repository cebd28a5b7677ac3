"""One parser for every setting: each kind, its bounds, and names that are no settings."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from functions.room import close_room, limits_of, open_room
from shared.settings import LAYERS, REQUIRED_LAYERS, BadSetting, Settings


def read(**environ: str) -> Settings:
    return Settings.read({f"WORKROOM_{name}": text for name, text in environ.items()})


def test_nothing_set_is_every_default() -> None:
    assert Settings.read({}) == Settings()
    assert Settings.read({"PATH": "/bin", "workroom_port": "x", "WORKROOMS": "1"}) == Settings()


def test_the_defaults_are_those_of_the_issue() -> None:
    made = Settings()
    assert (made.host, made.port, made.session_lifetime_s, made.run_ms, made.memory_mib) == (
        "127.0.0.1", 8080, 86_400, 30_000, 1_024,
    )  # fmt: skip
    assert set(made.required_layers) == {"clean", "reap", "filter", "namespaces", "memory", "wipe"}


def test_an_empty_setting_is_as_absent() -> None:
    assert read(PORT="", DATA="", REQUIRED_LAYERS="") == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("DATA", "/srv/x", Path("/srv/x")),
        ("ROOT", "r", Path("r")),
        ("HOST", "::1", "::1"),
        ("PORT", "0", 0),
        ("PORT", "65535", 65_535),
        ("DEV_KEY", "0", False),
        ("DEV_KEY", "FALSE", False),
        ("DEV_KEY", "True", True),
        ("DEV_KEY", "1", True),
        ("CONCURRENCY", "3", 3),
        ("RUN_MS", "300000", 300_000),
        ("MEMORY_MIB", "64", 64),
        ("REQUIRED_LAYERS", "clean, reap", ("clean", "reap")),
        ("REQUIRED_LAYERS", ",", ()),
        ("MCP_GROUPS", "exec", ("exec",)),
        ("LOG_LEVEL", "debug", "debug"),
        ("KEY", "wr_x", "wr_x"),
    ],
)
def test_each_kind_is_read(name: str, text: str, value: Any) -> None:
    assert getattr(read(**{name: text}), name.lower()) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "65536"), ("PORT", "-1"), ("PORT", "8080 "), ("PORT", "0x50"), ("PORT", "1e3"), ("PORT", "\u0661"),
        ("PORT", "9" * 5_000), ("PORT", "eighty"), ("RUN_MS", "0"), ("RUN_MS", "300001"), ("MEMORY_MIB", "63"),
        ("SESSION_LIFETIME_S", "0"), ("JANITOR_S", "0"), ("CONCURRENCY", "0"), ("DEV_KEY", "yes"), ("DEV_KEY", "2"),
        ("REQUIRED_LAYERS", "clean,firewall"), ("REQUIRED_LAYERS", "CLEAN"), ("MCP_GROUPS", "keys"),
        ("LOG_LEVEL", "trace"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_stops_the_start_and_is_named(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=f"^WORKROOM_{name} "):
        read(**{name: text})


@pytest.mark.parametrize("name", ["WORKROOM_PROT", "WORKROOM_", "WORKROOM_port", "WORKROOM_REQUIRED_LAYER"])
def test_a_misspelt_setting_never_passes_silently(name: str) -> None:
    with pytest.raises(BadSetting, match=name):
        Settings.read({name: "1"})


def test_what_is_required_is_a_layer() -> None:
    assert set(REQUIRED_LAYERS) <= set(LAYERS)


def test_every_setting_has_its_sentence() -> None:
    for entry in fields(Settings):
        assert entry.metadata["doc"], entry.name


def test_the_lifetimes_of_sessions_become_limits() -> None:
    given = {"ENVIRONMENT_LIFETIME_S": "60", "WAITING_LIFETIME_S": "7", "TURN_RUN_MS": "9000"}
    limits = limits_of(Settings.read({f"WORKROOM_{name}": value for name, value in given.items()}))
    assert (limits.environment_ms, limits.waiting_ms, limits.turn_run_ms) == (60_000, 7_000, 9_000)
    plain = limits_of(Settings())
    assert (plain.environment_ms, plain.waiting_ms, plain.turn_run_ms) == (86_400_000, 3_600_000, 300_000)


@pytest.mark.parametrize("model", ["program:cobol", "program:", "py", "gpt"])
def test_a_default_engine_is_one_of_the_engines(tmp_path: Path, model: str) -> None:
    none = tmp_path / "none"
    settings = Settings(data=tmp_path / "data", cache=tmp_path, root=none, jail=none, default_model=model)
    with pytest.raises(BadSetting, match=r"WORKROOM_DEFAULT_MODEL takes .*program:py"):
        open_room(settings)


def test_the_default_engine_is_the_rooms(tmp_path: Path) -> None:
    none = tmp_path / "none"
    given = Settings(data=tmp_path / "data", cache=tmp_path, root=none, jail=none)
    for model in (None, "program:py"):
        room = open_room(replace(given, default_model=model))
        try:
            assert room.default_model == model
        finally:
            close_room(room)
