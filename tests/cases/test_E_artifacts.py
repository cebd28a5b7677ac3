"""cases.md E, D18 and F18: Environments, their files and what Turns leave, by OpenAI's client and the service."""

from __future__ import annotations

import hashlib
import io
import tarfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.cases.door import Service, at_once

DEEP = 64
ENTRIES = 4_096
FILE = 200 << 20
ALL = 500 << 20
PATH = 4_096
ROOT = "/workspace/"


@dataclass
class Talk:
    """A Session of the first project, whose messages are programs of Bash."""

    client: openai.OpenAI
    session: str
    environment: str

    @property
    def _sessions(self) -> Any:
        return self.client.beta.agents.sessions

    def run(self, program: str) -> Any:
        """A Turn, to its end."""
        said = {"role": "user", "content": [{"type": "input_text", "text": program}]}
        self._sessions.events.create(self.session, events=[{"type": "agent.session.input.message", "input": [said]}])
        until = time.monotonic() + 100
        while (turn := next(iter(self._sessions.turns.list(self.session)))).status in ("queued", "in_progress"):
            assert time.monotonic() < until, turn
            time.sleep(0.02)
        while self._sessions.retrieve(self.session).status != "idle":
            assert time.monotonic() < until
            time.sleep(0.02)
        return turn

    def done(self, program: str) -> str:
        """A Turn that completes: its id."""
        turn = self.run(program)
        assert (turn.status, turn.error) == ("completed", None), turn
        return str(turn.id)

    def expect_capture_fails(self, program: str, *words: str) -> None:
        """The Turn fails because of what lies below outputs/, and publishes nothing."""
        before = self.artifacts()
        turn = self.run(program)
        assert (turn.status, turn.error.code) == ("failed", "artifact_capture_failed"), turn
        assert all(word in turn.error.message for word in words), turn.error
        assert self.artifacts() == before

    def artifacts(self) -> list[tuple[str, str, int, str]]:
        """Path, Turn, size and id of each, the oldest first."""
        rows = self._sessions.artifacts.list(self.session, order="asc", limit=100)
        return [(row.path.removeprefix(ROOT), row.turn_id, row.size_bytes, row.id) for row in rows]

    def paths(self) -> list[str]:
        return [row[0] for row in self.artifacts()]

    def content(self, artifact: str) -> bytes:
        found: bytes = self._sessions.artifacts.content(artifact, session_id=self.session).read()
        return found

    def delete(self, artifact: str) -> None:
        assert self._sessions.artifacts.delete(artifact, session_id=self.session).deleted

    def write(self, path: str, data: str = "") -> Any:
        return self.client.beta.agents.environments.files.create(
            self.environment, type="inline", data=data, path=ROOT + path
        )

    def names(self, directory: str = "", **more: Any) -> list[str]:
        """One page of a directory."""
        page = self.client.beta.agents.environments.files.list(
            self.environment, path=(ROOT + directory).rstrip("/"), order="asc", limit=100, **more
        )
        return [row.path.removeprefix(ROOT) for row in page.data]


@pytest.fixture
def client(service: Service) -> Iterator[openai.OpenAI]:
    # A new error code is no part of the client's own list: answers are not validated here.
    with openai.OpenAI(api_key=service.key, base_url=f"{service.url}/v1", max_retries=0, timeout=100) as made:
        yield made


@pytest.fixture
def talk(client: openai.OpenAI) -> Iterator[Talk]:
    session = client.beta.agents.sessions.create(agent={"model": "program:bash"}, environment={"type": "openai_hosted"})
    yield Talk(client, session.id, session.environment.id)  # type: ignore[union-attr]
    assert client.beta.agents.sessions.delete(session.id).deleted


def test_E2_a_dangling_link_is_not_written_through(talk: Talk) -> None:
    talk.done("mkdir outputs; ln -s /tmp/x outputs/new; ln -s ../made outputs/inside; ln -s /tmp outside")
    for path, message in (
        ("outputs/new", "environment.files paths must not traverse symlinks or overwrite existing files"),
        ("outputs/inside", "environment.files paths must not traverse symlinks or overwrite existing files"),
        ("outputs/new/x", "Invalid resource identifier or request limits."),
        ("outside/x", "Invalid resource identifier or request limits."),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            talk.write(path)
        assert refused.value.body["message"] == message, path  # type: ignore[index]
    talk.done("test ! -e /tmp/x && test ! -e made && readlink outputs/new")
    assert (talk.names(), talk.names("outputs"), talk.paths()) == ([], [], [])


def test_E4_outputs_that_is_no_directory_and_special_files_fail_the_capture(talk: Talk) -> None:
    talk.expect_capture_fails("ln -s . outputs")
    talk.expect_capture_fails("rm outputs; echo file > outputs")
    talk.expect_capture_fails("rm outputs; mkdir outputs; mkfifo outputs/p; echo x > outputs/f")
    # What stays is there in the next run, and a Turn without it publishes.
    talk.done("test -p outputs/p && rm outputs/p && ln -s f outputs/link")
    assert talk.paths() == ["outputs/f"]


def test_E6_nothing_unpacks(talk: Talk) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../x", "out")
        archive.writestr("/etc/x", "out")
        archive.writestr("zeros", bytes(10_000_000))
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w:gz") as tar:
        link = tarfile.TarInfo("d")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(link)
        tar.addfile(tarfile.TarInfo("d/x"))
    files = talk.client.beta.agents.environments.files
    for name, body in (("a.zip", packed.getvalue()), ("a.tar.gz", tarred.getvalue())):
        assert files.upload(talk.environment, file=(name, body), path=ROOT + name).file.size_bytes == len(body)
    assert talk.names() == ["a.tar.gz", "a.zip"]
    talk.done("mkdir outputs; cp a.* outputs; test $(find . -type f | wc -l) = 4")
    rows = {row[0]: row[3] for row in talk.artifacts()}
    assert talk.content(rows["outputs/a.zip"]) == packed.getvalue()
    assert talk.content(rows["outputs/a.tar.gz"]) == tarred.getvalue()


def test_E8_depth_and_entries_at_the_limit_and_above(talk: Talk) -> None:
    nest = "mkdir -p outputs; cd outputs; for i in $(seq 1 {0}); do mkdir -p d; cd d; done; echo x > f"
    talk.done(nest.format(DEEP))
    assert talk.paths() == ["outputs/" + "d/" * DEEP + "f"]
    talk.expect_capture_fails(nest.format(DEEP + 1), "64")
    fill = f"for i in $(seq 1 {ENTRIES - 2}); do echo $i > outputs/d/$i; done"
    talk.done(f"rm -r outputs; mkdir -p outputs/d; ln -s x outputs/link; {fill}")
    assert len(talk.paths()) == 1 + ENTRIES - 2
    talk.expect_capture_fails("echo more > outputs/more", "4096")
    with pytest.raises(openai.InternalServerError) as refused:
        talk.names("outputs/d")
    assert refused.value.status_code == 503


def test_E8_a_path_at_the_limit_and_above(talk: Talk) -> None:
    # Seventeen names of 240 and what is missing, each followed by a slash but the last.
    folders = "/".join(["d" * 240] * 16)
    last = PATH - len(f"{ROOT}outputs/{folders}/")
    talk.done(f"mkdir -p outputs/{folders}; cd outputs/{folders}; echo x > {'f' * last}")
    assert [len((ROOT + path).encode()) for path in talk.paths()] == [PATH]
    (row,) = talk.artifacts()
    assert talk.content(row[3]) == b"x\n"
    talk.expect_capture_fails(f"cd outputs/{folders}; mv {'f' * last} {'f' * (last + 1)}", "4096")


def test_E8_E13_sizes_at_the_limit_and_above(talk: Talk) -> None:
    """Sparse files count as they read; 200 MiB go through whole."""
    talk.done(f"mkdir outputs; truncate -s {FILE} outputs/a; echo -n end | dd of=outputs/a bs=1 seek={FILE - 3} "
              "conv=notrunc status=none")  # fmt: skip
    (row,) = talk.artifacts()
    assert row[2] == FILE
    digest, size = hashlib.sha256(), 0
    got = talk.client.beta.agents.sessions.artifacts.with_streaming_response.content(row[3], session_id=talk.session)
    with got as answer:
        for piece in answer.iter_bytes():
            digest.update(piece)
            size += len(piece)
    expected = hashlib.sha256(bytes(FILE - 3))
    expected.update(b"end")
    assert (size, digest.digest()) == (FILE, expected.digest())
    talk.expect_capture_fails(f"rm outputs/a; truncate -s {FILE + 1} outputs/b", str(FILE))
    half = ALL - 2 * FILE
    talk.done(f"cd outputs; truncate -s {FILE} b; truncate -s {FILE} c; truncate -s {half} d")
    assert sorted(talk.paths()) == ["outputs/a", "outputs/b", "outputs/c", "outputs/d"]
    talk.expect_capture_fails(f"cd outputs; truncate -s {half + 1} d", str(ALL))


def test_E9_same_bytes_deletion_and_back_again(talk: Talk) -> None:
    first = talk.done("mkdir outputs; echo A > outputs/f")
    ((_, turn, _, one),) = talk.artifacts()
    assert turn == first
    talk.done("echo A > outputs/f; touch -d '2020-01-01' outputs/f")
    assert [row[3] for row in talk.artifacts()] == [one]
    talk.delete(one)
    third = talk.done("echo A > outputs/f")
    ((_, turn, _, two),) = talk.artifacts()
    assert (turn == third, two != one) == (True, True)
    talk.done("echo B > outputs/f")
    last = talk.done("echo A > outputs/f")
    rows = talk.artifacts()
    assert [talk.content(row[3]) for row in rows] == [b"A\n", b"B\n", b"A\n"]
    assert rows[-1][1] == last
    # With the newest two gone it is the first that the bytes are compared with.
    for row in rows[1:]:
        talk.delete(row[3])
    talk.done("echo A > outputs/f")
    assert [row[3] for row in talk.artifacts()] == [two]


def test_E10_a_page_is_of_one_listing_and_no_directory_is_too_full(talk: Talk) -> None:
    talk.done("for i in $(seq 1 5); do echo $i > $i; done")
    files = talk.client.beta.agents.environments.files
    page = files.list(talk.environment, limit=2, order="asc")
    assert (page.has_more, [row.path for row in page.data]) == (True, [ROOT + "1", ROOT + "2"])
    assert page.next is not None
    following = files.list(talk.environment, limit=2, order="asc", page=page.next)
    assert [row.path for row in following.data] == [ROOT + "3", ROOT + "4"]
    talk.write("6")
    with pytest.raises(openai.BadRequestError) as refused:
        files.list(talk.environment, limit=2, order="asc", page=page.next)
    assert refused.value.body["message"] == "Invalid file page token for this request"  # type: ignore[index]
    talk.done("mkdir full; cd full; mkdir d; ln -s x link; mkfifo p; for i in $(seq 1 1021); do echo > $i; done")
    assert len(talk.names("full")) == 100
    talk.done("ln -s y full/link2")
    with pytest.raises(openai.InternalServerError) as failed:
        talk.names("full")
    assert (failed.value.status_code, failed.value.body["code"]) == (503, "execution_unavailable")  # type: ignore[index]


def test_E11_what_is_no_directory_is_an_empty_page(talk: Talk) -> None:
    talk.done("mkdir d; echo x > d/f; ln -s d link; ln -s nowhere dangling; ln -s / root")
    for path in ("d/f", "missing", "missing/deeper", "link", "dangling", "root", "root/etc", "link/f", "d/f/g"):
        assert talk.names(path) == [], path
    assert talk.names("d") == ["d/f"]


def test_D18_F18_a_thousand_parallel_creations_have_ids_that_nobody_guesses(service: Service) -> None:
    headers = {"Authorization": f"Bearer {service.key}", "OpenAI-Beta": "agents=v1"}
    body = {"agent": {"model": "program:bash"}, "environment": {"type": "openai_hosted"}}

    def create() -> list[str]:
        made = []
        for _ in range(50):
            answer = service.ask("POST", "/v1/agents/sessions", key="", headers=headers, json=body)
            assert answer.status_code == 201, answer.text
            made.append(answer.json()["id"])
        return made

    found = [one for made in at_once([create] * 20) for one in made]
    assert len(set(found)) == 1_000
    # Behind what orders them 20 characters of 64 are at least 120 bits: no column of them is the same twice over.
    tails = [one[-20:] for one in found]
    assert len(set(tails)) == 1_000
    for column in zip(*tails, strict=True):
        assert len(set(column)) > 32
