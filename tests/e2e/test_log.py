"""What the functions print: one line a request and a metric a run, and nothing of what callers and programs wrote."""

from __future__ import annotations

import json

from tests.e2e.caller import Api
from tests.e2e.stack import Stack

CANARY = "CaNaRy7419"


def test_nothing_of_a_run_is_in_a_log(api: Api, stack: Stack) -> None:
    forged = '{"level":"INFO","event":"request"}'
    code = f"print('{CANARY} out'); print('''\\n{forged}\\n'''); open('{CANARY}.txt','w').write('{CANARY}'); 1/0"
    ran = api.run("py", code, user_id=CANARY, args=[CANARY])
    assert CANARY in ran["stdout"]
    api.upload(f"{CANARY}.bin", CANARY.encode(), ran["session_id"])
    api.http.get(f"/v1/exec/download/{ran['session_id']}/{CANARY}.txt")
    api.http.get(f"/v1/{CANARY}?{CANARY}={CANARY}", headers={"User-Agent": CANARY})
    event = {"operation": CANARY, "credential": CANARY, "input": {CANARY: CANARY}}
    assert stack.invoke("DirectFunction", event)["status"] == 403
    for path in stack.folder.iterdir():
        text = path.read_text("utf-8", "replace")
        assert CANARY not in text, path.name
        assert api.key not in text, path.name


def test_a_request_is_one_line_and_a_run_one_metric(api: Api, stack: Stack) -> None:
    before = len(stack.log("ApiFunction").splitlines())
    api.run("bash", "exit 3")
    lines = stack.log("ApiFunction").splitlines()[before:]
    made = [json.loads(line) for line in lines if line.startswith("{")]
    (request,) = [line for line in made if line.get("event") == "request"]
    assert (request["operation"], request["project"], request["status"]) == ("exec.run", "main", 200)
    assert request["ms"] > 0
    assert request["cold_start"] in (True, False)
    (metric,) = [line for line in made if "_aws" in line]
    assert (metric["lang"], metric["outcome"], metric["runs"]) == ("bash", "failed", [1.0])
