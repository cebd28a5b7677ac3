"""A Workroom of one's own in front of the deployment: what Lambda's front door cannot carry passes through it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from tests.e2e.caller import Api
from tests.e2e.stack import Stack


@pytest.fixture(scope="module", name="front")
def _front(stack: Stack, api: Api) -> Iterator[Api]:
    with stack.serve("--store", "aws", "--executor", "lambda") as url, Api(url, api.key) as front:
        yield front


def test_it_is_the_same_service(front: Api, api: Api) -> None:
    session = api.run("bash", "echo shared > f")["session_id"]
    assert front.run("bash", "cat f", session)["stdout"] == "shared\n"
    assert front.http.get("/v1/health").json()["executor"]["ready"]


def test_a_large_file_goes_up_and_comes_down_in_one_request(front: Api) -> None:
    content = b"large file " * 2_000_000
    made = front.upload("big.bin", content)
    ran = front.run("bash", "sha256sum < big.bin", made["session_id"])
    assert ran["stdout"].split()[0] == hashlib.sha256(content).hexdigest()
    down = front.http.get(f"/v1/exec/download/{made['session_id']}/{made['files'][0]['fileId']}", follow_redirects=True)
    assert down.content == content


def test_a_run_may_be_as_long_as_the_function_lets_it(front: Api) -> None:
    ran = front.run("bash", "sleep 22; echo long", timeout=40_000)
    assert (ran["stdout"], ran["stderr"]) == ("long\n", "")


def test_the_development_key_is_not_taken(front: Api, stack: Stack) -> None:
    assert front.http.get("/v1/files", headers={"X-API-Key": "wr_" + "d" * 42}).status_code == 401
    assert "development" not in (stack.folder / "serve").read_text()
