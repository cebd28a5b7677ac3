"""What a completed Turn captures (agents.md 6.1, 11.9, 11.10, 11.13, 11.29 to 11.31; cases.md E4, E8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from shared.domain.agents.capture import CAPTURE_LIMITS, CaptureFailed, CaptureLimits, capture, elsewhere
from shared.domain.manifest import Entry, Manifest
from shared.limits import Limits
from tests.unit.agents.trees import file, folder, link, special, tree


def fault(manifest: Manifest, *, changed: Sequence[str] = (), lost: Sequence[str] = ()) -> str:
    with pytest.raises(CaptureFailed) as caught:
        capture(manifest, changed=changed, lost=lost)
    assert "secret" not in caught.value.message
    return caught.value.fault


def test_6_1_the_contract_s_limits() -> None:
    assert CaptureLimits(
        entries=4_096, depth=64, path_bytes=4_096, file_bytes=200 * 2**20, bytes=500 * 2**20
    ) == CAPTURE_LIMITS  # fmt: skip


def test_11_31_the_workspace_can_hold_one_more_than_each_limit() -> None:
    limits = Limits()
    assert limits.workspace_entries > CAPTURE_LIMITS.entries + 1
    assert limits.path_depth > CAPTURE_LIMITS.depth + 2
    assert limits.path_bytes > CAPTURE_LIMITS.path_bytes
    assert limits.file_bytes > CAPTURE_LIMITS.file_bytes
    assert limits.workspace_bytes > CAPTURE_LIMITS.bytes


@pytest.mark.parametrize(
    "base", [tree(), tree(file("a")), tree(file("output/a"), file("outputs2/a"), file("d/outputs/a"))]
)
def test_6_1_without_outputs_there_is_nothing_to_do(base: Manifest) -> None:
    assert capture(base) == ()


def test_6_1_every_regular_file_below_outputs_in_order_and_no_link() -> None:
    base = tree(
        file("a"), file("outputs/b"), file("outputs/B"), file("outputs/d/e/f"), file("outputs/empty", ""),
        folder("outputs/g"), link("outputs/l", "/etc/passwd"), link("outputs/ld", "d"), link("outputs/dead", "x"),
        file("outputs-2/x"), special("pipe"), special("sock", "other"),
    )  # fmt: skip
    assert [entry.path for entry in capture(base)] == ["outputs/B", "outputs/b", "outputs/d/e/f", "outputs/empty"]


@pytest.mark.parametrize(
    "root",
    [file("outputs"), link("outputs", "."), link("outputs", "real"), special("outputs"), special("outputs", "other")],
)
def test_E4_outputs_that_is_no_directory_fails(root: Entry) -> None:
    assert fault(tree(file("real/x"), root)) == "not_a_directory"


@pytest.mark.parametrize("kind", ["fifo", "other"])
@pytest.mark.parametrize("path", ["outputs/secret", "outputs/d/secret"])
def test_E4_a_special_below_outputs_fails(path: str, kind: str) -> None:
    assert fault(tree(file("outputs/a"), special(path, kind))) == "special"


def test_11_29_a_marked_file_below_outputs_fails_and_another_does_not() -> None:
    base = tree(file("outputs/secret"), file("a"), file("outputs2/a"))
    assert fault(base, changed=["outputs/secret"]) == "changed"
    assert len(capture(base, changed=["a", "outputs2/a"])) == 1


def test_11_31_what_could_not_be_kept_fails_by_its_place() -> None:
    base = tree(file("outputs/a"))
    assert fault(base, lost=["outputs/secret"]) == "special"
    assert fault(tree(), lost=["outputs/secret"]) == "special"
    assert capture(base, lost=["secret"]) != ()
    assert elsewhere(["secret"])
    assert elsewhere(["outputs/a", "outputs2/a"])
    assert not elsewhere(["outputs/a", "outputs"])
    assert not elsewhere([])


@pytest.mark.parametrize("kind", ["file", "dir", "link"])
def test_E8_11_9_4096_entries_of_any_kind_and_one_more(kind: str) -> None:
    kinds: dict[str, Callable[[str], Entry]] = {"file": file, "dir": folder, "link": lambda path: link(path, "x")}
    make = kinds[kind]
    base = tree(*(make(f"outputs/{at:04}") for at in range(4_096)))
    assert len(capture(base)) == (4_096 if kind == "file" else 0)
    assert fault(tree(*base, make("outputs/secret"))) == "entries"
    assert fault(tree(*base, file("outputs/0000x/secret"))) == "entries"


def test_11_9_entries_elsewhere_do_not_count() -> None:
    base = tree(*(file(f"outputs/{at:04}") for at in range(4_096)), *(file(f"d/{at:04}") for at in range(4_096)))
    assert len(capture(base)) == 4_096


def nested(depth: int) -> str:
    return "outputs/" + "/".join("d" for _ in range(depth))


def test_E8_11_13_a_directory_64_below_outputs_and_one_deeper() -> None:
    assert capture(tree(folder(nested(64)))) == ()
    assert len(capture(tree(file(nested(64) + "/f")))) == 1
    assert fault(tree(folder(nested(65)))) == "depth"
    assert fault(tree(file(nested(65) + "/f"))) == "depth"


def test_E8_a_path_of_4096_bytes_and_one_more() -> None:
    room = 4_096 - len("/workspace/outputs/")
    assert len(capture(tree(file("outputs/" + "x" * room)))) == 1
    assert fault(tree(file("outputs/" + "x" * (room + 1)))) == "path"
    assert fault(tree(file("outputs/" + "é" * (room // 2 + 1)))) == "path"


def test_E8_a_file_of_200_mib_and_one_byte_more() -> None:
    assert len(capture(tree(file("outputs/a", size=209_715_200)))) == 1
    assert fault(tree(file("outputs/secret", size=209_715_201))) == "file_bytes"
    assert len(capture(tree(file("outputs/a"), file("big", size=209_715_201)))) == 1


def test_E8_500_mib_in_all_and_one_byte_more() -> None:
    parts = [file(f"outputs/{at}", size=174_762_666) for at in range(3)]
    spare = 524_288_000 - 3 * 174_762_666
    assert len(capture(tree(*parts, file("outputs/d/x", size=spare)))) == 4
    assert fault(tree(*parts, file("outputs/d/secret", size=spare + 1))) == "bytes"
    assert len(capture(tree(*parts, file("outputs/d/x", size=spare), file("other", size=99)))) == 4


@pytest.mark.parametrize("entry", [file("outputs/\udcff"), file("outputs/\udcff/a"), folder("outputs/\udcff")])
def test_11_10_a_name_that_is_not_utf_8_fails(entry: Entry) -> None:
    assert fault(tree(file("outputs/a"), entry)) == "name"


def test_11_10_such_a_name_elsewhere_does_not() -> None:
    assert len(capture(tree(file("outputs/a"), file("\udcff")))) == 1
