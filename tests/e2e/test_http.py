"""The deployed service over HTTP: programs, files, sessions, grants, and what a front door cannot carry."""

from __future__ import annotations

import hashlib
import random
from urllib.parse import urlsplit

import httpx
import pytest

from shared.executor.wire import LANGS
from tests.cases.file_programs import READ
from tests.cases.programs import HELLO
from tests.e2e.caller import Api
from tests.e2e.stack import Stack


@pytest.mark.parametrize("lang", LANGS)
def test_a_program_of_each_language_prints_and_reads_a_file(api: Api, lang: str) -> None:
    ran = api.run(lang, HELLO[lang], user_id="matrix")
    assert (ran["stdout"], ran["stderr"], ran["code"], ran["status"]) == ("hello\n", "", 0, None)
    session = api.upload("in.txt", b"read\n")["session_id"]
    read = api.run(lang, READ[lang].replace("@NAME@", "in.txt"), session, user_id="matrix")
    assert (read["stdout"], read["stderr"], read["code"]) == ("read\n", "", 0)


def test_a_session_keeps_its_files_from_run_to_run(api: Api, stranger: Api) -> None:
    first = api.run("bash", "mkdir -p a/b; echo kept > a/b/c.txt; ln -s a/b/c.txt link; chmod 750 a")
    session = first["session_id"]
    again = api.run("bash", "cat link; stat -c %a a; rm a/b/c.txt; echo new > n", session)
    assert (again["stdout"], again["deleted_files"]) == ("kept\n750\n", ["a/b/c.txt"])
    assert [row["name"] for row in again["files"]] == ["n"]
    assert stranger.post("bash", "ls", session).status_code == 404
    assert stranger.http.get(f"/v1/exec/files/{session}").status_code == 404


def test_files_go_up_are_listed_read_and_come_down(api: Api) -> None:
    content = bytes(range(256)) * 4_000
    made = api.upload("häl lo/ü.bin", content)
    session, file = made["session_id"], made["files"][0]["fileId"]
    ran = api.run("py", "print(len(open('häl lo/ü.bin','rb').read()))", session)
    assert ran["stdout"] == f"{len(content)}\n"
    rows = api.http.get(f"/v1/exec/files/{session}").json()
    assert [row["metadata"]["original-filename"] for row in rows] == ["häl lo/ü.bin"]
    down = api.http.get(f"/v1/exec/download/{session}/{file}")
    assert (down.status_code, down.content) == (200, content)
    assert down.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    part = api.http.get(f"/v1/exec/download/{session}/{file}", headers={"Range": "bytes=255-257"})
    assert (part.status_code, part.content) == (206, b"\xff\x00\x01")
    assert api.http.delete(f"/v1/exec/files/{session}/{file}").status_code == 200
    assert api.http.get(f"/v1/exec/download/{session}/{file}").status_code == 404


@pytest.mark.parametrize("size", [6_000_000, 900_000])
def test_a_file_comes_down_by_grant_where_the_answer_cannot_carry_it(api: Api, size: int) -> None:
    ran = api.run("py", f"import random; open('big.bin','wb').write(random.Random(7).randbytes({size}))")
    session, row = ran["session_id"], ran["files"][0]
    answer = api.http.get(f"/v1/exec/download/{session}/{row['id']}")
    if size < 4_000_000:
        assert answer.status_code == 200
        body = answer.content
    else:
        assert answer.status_code == 302
        assert api.key not in answer.headers["location"]
        assert answer.headers["cache-control"] == "no-store"
        body = httpx.get(answer.headers["location"], trust_env=False, timeout=30).content
    assert body == random.Random(7).randbytes(size)


def test_a_large_file_goes_up_by_grant_once(api: Api) -> None:
    content = b"0123456789abcdef" * 600_000
    request = {"name": "in/big.txt", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    grant = api.http.post("/v1/exec/uploads", json=request)
    assert grant.status_code == 201, grant.text
    made = grant.json()
    assert urlsplit(made["url"]).scheme in ("http", "https")
    with httpx.Client(trust_env=False, timeout=60) as http:
        wrong = http.put(made["url"], content=content[:-1] + b"!", headers=made["headers"])
        assert wrong.status_code == 400, wrong.text
        assert http.put(made["url"], content=content, headers=made["headers"]).status_code == 200
        assert http.put(made["url"], content=content, headers=made["headers"]).status_code == 412
    done = api.http.post(f"/v1/exec/uploads/{made['upload_id']}/complete")
    assert done.status_code == 200, done.text
    assert api.http.post(f"/v1/exec/uploads/{made['upload_id']}/complete").json() == done.json()
    ran = api.run("bash", "wc -c < in/big.txt; tail -c 4 in/big.txt", done.json()["session_id"])
    assert ran["stdout"] == f"{len(content)}\ncdef"


def test_output_is_cut_to_what_the_front_door_carries(api: Api) -> None:
    ran = api.run("py", "print('\\x01' * 1_000_000); open('left.txt','w').write('x')")
    assert ran["status"] == "OL"
    assert ran["stdout"].startswith("\x01" * 1000)
    assert len(ran["stdout"]) < 1_000_000
    assert [row["name"] for row in ran["files"]] == ["left.txt"]


def test_many_outputs_large_and_small_are_kept(api: Api) -> None:
    code = "import os\nfor i in range(300): open(f's{i:03}','w').write(str(i))\n"
    code += "for i in range(20): open(f'L{i:02}','wb').write(os.urandom(1_200_000))\n"
    ran = api.run("py", code)
    assert len(ran["files"]) == 320, ran["stderr"]
    again = api.run("bash", "cat s299; ls | wc -l; stat -c %s L19", ran["session_id"])
    assert again["stdout"] == "299320\n1200000\n"


def test_a_longer_time_than_the_door_has_is_cut_and_said(api: Api) -> None:
    ran = api.run("bash", "echo begun", timeout=120_000)
    assert ran["stdout"] == "begun\n"
    assert "120000 ms" in ran["stderr"] or "time" in ran["stderr"]


def test_a_body_above_what_lambda_takes_never_arrives(api: Api) -> None:
    answer = api.http.post("/v1/exec/upload", files={"file": ("x", bytes(6_400_000))})
    assert answer.status_code == 413


def test_a_program_of_another_user_has_another_environment(api: Api, stack: Stack) -> None:
    leave = "touch /tmp/mark; ls /tmp"
    before = stack.lambdas.started(stack.deployed.names["SandboxFunction"])
    api.run("bash", leave, user_id="ann")
    session = api.run("bash", "ls /tmp", user_id="ann")
    assert "mark" not in session["stdout"]
    assert stack.lambdas.started(stack.deployed.names["SandboxFunction"]) == before + 1
    assert "mark" not in api.run("bash", "ls /tmp", user_id="bob")["stdout"]
    assert stack.lambdas.started(stack.deployed.names["SandboxFunction"]) == before + 2


def test_the_emulators_own_gateway_reaches_the_same_service(api: Api, stack: Stack) -> None:
    host = urlsplit(stack.deployed.outputs["Url"]).hostname
    assert host is not None
    headers = {"Host": host, "X-API-Key": api.key}
    with httpx.Client(base_url=stack.emulator.endpoint, headers=headers, trust_env=False, timeout=60) as http:
        assert http.get("/v1/health").json()["executor"]["ready"]
        ran = http.post("/v1/exec", json={"lang": "bash", "code": "echo there"})
        assert (ran.status_code, ran.json()["stdout"]) == (200, "there\n")
        assert http.get("/v1/nothing").status_code == 404
        assert http.get("/v1/health", headers={"X-API-Key": "wr_wrong"}).json() == {"status": "ok"}
