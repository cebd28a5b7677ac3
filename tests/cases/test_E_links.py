"""cases.md E: links and special files that a program leaves, through HTTP."""

from __future__ import annotations

import pytest

from tests.cases.door import Service

SECRET_PATHS = ("/etc/passwd", "/etc/shadow", "/proc/self/environ", "/proc/1/environ", "/root/.bashrc", "/dev/zero")


def test_E1_links_are_not_listed_and_not_followed(service: Service) -> None:
    code = "ln -s /proc/self/environ out.txt; ln -s /etc outd; ln -s / root; ln -s .. up; echo real > f; ln -s f alias"
    ran = service.run("bash", code).expect("", ["f"])
    assert service.names(ran.session) == ["f"]
    for path in ("out.txt", "outd", "outd/passwd", "outd/shadow", "root/etc/passwd", "up/data", "alias", "root", "up"):
        for method in ("GET", "DELETE"):
            base = "download" if method == "GET" else "files"
            answer = service.ask(method, f"/v1/exec/{base}/{ran.session}/{path}")
            assert answer.status_code == 404, (method, path)
            assert b"root:" not in answer.content
    for path in ("out.txt", "outd/passwd", "alias"):
        answer = service.ask("GET", f"/v1/exec/sessions/{ran.session}/objects/{path}")
        assert answer.status_code == 404, path
    again = service.run("bash", "readlink out.txt outd root up alias; cat alias", ran.session)
    again.expect("/proc/self/environ\n/etc\n/\n..\nf\nreal\n")


@pytest.mark.parametrize("target", SECRET_PATHS)
def test_E1_a_listed_file_that_becomes_a_link_is_gone(service: Service, target: str) -> None:
    """Its id and its path find nothing; the next runs restore the link as text."""
    session = service.upload("d/f", b"mine")
    (row,) = service.rows(session)
    ran = service.run("bash", f"rm d/f; ln -s {target} d/f", session)
    assert (ran.names, ran.deleted, ran.code) == ([], ["d/f"], 0)
    for file in (row["id"], "d/f"):
        assert service.download(session, file).status_code == 404
    service.run("bash", "readlink d/f", session).expect(f"{target}\n")


def test_E1_an_upload_does_not_go_through_a_link(service: Service) -> None:
    """To a path at or below a link: refused or put in the link's place, never written through it."""
    session = service.run(
        "bash", "mkdir real; echo kept > real/f; ln -s real way; ln -s real/f file; ln -s /tmp out"
    ).session
    for name in ("way/f", "file", "out/x", "way"):
        answer = service.ask("POST", "/v1/upload", data={"session_id": session}, files={"file": (name, b"evil")})
        assert answer.status_code in (200, 400, 409), answer.text
    assert service.read(session, "real/f") == b"kept\n"
    service.run("bash", "cat real/f; ls real; ls /tmp", session).expect("kept\nf\nhome\n")


def test_E1_inputs_do_not_go_through_a_link(service: Service) -> None:
    session = service.run("bash", "mkdir real; echo kept > real/f; ln -s real way; ln -s real/f file").session
    source = service.upload("x", b"evil")
    files = [{"id": "x", "name": name, "session_id": source} for name in ("way/f", "file")]
    ran = service.run("bash", "cat real/f", session, files=files)
    assert (ran.stdout, ran.code) == ("kept\n", 0), ran
    assert service.read(session, "real/f") == b"kept\n"


@pytest.mark.parametrize(
    "code",
    [
        "ln -s . outputs",
        "ln -s /nowhere outputs",
        "ln -s outputs outputs",
        "mkdir outputs; mkfifo outputs/p",
        "mkfifo outputs",
        "mkdir -p outputs; ln -s .. outputs/up; ln -s /dev/zero outputs/zero; ln -s /proc/self/fd/1 outputs/out",
        "mkdir outputs; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('outputs/s')\"",
        "mkdir outputs; mkfifo outputs/p; chmod 000 outputs/p; chmod 000 outputs",
    ],
)
def test_E4_special_outputs_never_hang(service: Service, code: str) -> None:
    ran = service.run("bash", f"{code}; echo ok > f")
    assert (ran.code, ran.names) == (0, ["f"]), ran
    assert ran.seconds < 15
    assert service.names(ran.session) == ["f"]
    assert service.download(ran.session, "outputs").status_code == 404
    assert service.download(ran.session, "outputs/p").status_code == 404
    again = service.run("bash", "cat f; ls -d outputs", ran.session)
    assert (again.code, again.stdout) == (0, "ok\noutputs\n"), again
    assert again.seconds < 5


def test_E4_a_pipe_with_a_writer_that_waits_never_hangs(service: Service) -> None:
    ran = service.run(
        "bash", "mkfifo p; (setsid bash -c 'echo never > p' &); (cat p > got &); sleep 0.2; mkfifo q; echo ok"
    )
    assert (ran.code, ran.stdout) == (0, "ok\n")
    ran = service.run("bash", "mkfifo r; exec 9<>r; echo ok; (exec setsid sleep 50 8<>r) & sleep 0.1", ran.session)
    assert (ran.code, ran.stdout) == (0, "ok\n")
    assert ran.seconds < 15


def test_E4_folders_without_permission_are_kept(service: Service) -> None:
    """What its owner cannot enter is saved all the same, and restored as it was."""
    ran = service.run("bash", "mkdir -p d/e; echo x > d/e/f; chmod 000 d/e/f; chmod 000 d/e; chmod 100 d").expect(
        "", ["d/e/f"]
    )
    assert service.read(ran.session, "d/e/f") == b"x\n"
    service.run(
        "bash", "stat -c %a d; ls d 2>/dev/null || chmod 700 d; chmod 700 d/e; stat -c %a d/e/f", ran.session
    ).expect("100\n0\n")
