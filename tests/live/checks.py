"""The probe's checks. Each takes the target and says what it saw, or raises Failed, Open or Skipped."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.live import programs
from tests.live.target import Failed, Open, Skipped, Target

Check = Callable[[Target], str]


def layers(target: Target) -> str:
    """Every required layer is active; the service says so itself."""
    answer = target.http.get("/v1/health")
    report = answer.json() if answer.status_code == 200 else {}
    found = report.get("layers") or {}
    if not found:
        raise Failed(f"status {answer.status_code}, no layers reported")
    target.layers.update({name: bool(row["active"]) for name, row in found.items()})
    missing = [name for name, row in found.items() if row["required"] and not row["active"]]
    if missing or not report["executor"]["ready"]:
        raise Failed(f"required and not active: {', '.join(missing)}" if missing else "the executor is not ready")
    off = [name for name, active in target.layers.items() if not active]
    return f"active but {', '.join(off)}" if off else "all active"


def own_environment(target: Target) -> str:
    """K1: a program's environment names nothing of ours."""
    return target.silent(programs.OWN_ENVIRONMENT)


def other_processes(target: Target) -> str:
    """K1: no other process's environment or memory is read."""
    return target.silent(programs.OTHERS_SECRETS)


def network(target: Target) -> str:
    """K2: no host is reached, no name resolved."""
    return target.silent(programs.NETWORK)


def runtime_api(target: Target) -> str:
    """K2: the runtime API, where a program could take the next event, is not reached."""
    return target.silent(programs.RUNTIME, stopped_by=("filter", "namespaces"))


def survivors(target: Target) -> str:
    """K3: a daemon that ignores signals is dead before the answer, its files in /tmp are gone."""
    mark = secrets.token_hex(8)
    first = target.run(programs.DAEMON, args=(mark,))
    if first["stdout"] != "started\n":
        raise Failed("the daemon did not start")
    return target.silent(programs.LEFT_OVER, args=(mark[::-1],), session_id=first["session_id"])


def signals(target: Target) -> str:
    """K4: no process but a program's own takes its signals."""
    return target.silent(programs.SIGNALS, stopped_by=("filter", "namespaces"))


def _scopes(target: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    tag = secrets.token_hex(6)
    return (
        {"user_id": f"probe-a-{tag}", "runtime_session_hint": f"a-{tag}"},
        {"user_id": f"probe-b-{tag}", "runtime_session_hint": f"b-{tag}"},
    )


def two_tenants(target: Target) -> str:
    """Two users' sessions share no file, and on AWS no machine, unless the scope is the project."""
    one, other = _scopes(target)
    mark = secrets.token_hex(16)
    target.run(programs.MARK, args=(mark,), **one)
    target.silent(programs.SEARCH, args=(mark[::-1],), **other)
    if not target.aws:
        return "no file shared"
    boots = [target.run(programs.BOOT, **scope)["stdout"] for scope in (one, other)]
    if boots[0] == boots[1] and target.isolation != "project":
        raise Failed("both ran in one environment")
    return "no file shared, " + ("one machine (scope: project)" if boots[0] == boots[1] else "two machines")


def time_out(target: Target) -> str:
    """A program above its time is stopped, and the answer says so."""
    begun = time.monotonic()
    ran = target.run(programs.SPIN, timeout=1500)
    if ran["status"] != "TO":
        raise Failed(f"status {ran['status']}")
    return f"TO after {time.monotonic() - begun:.1f} s"


def too_many(target: Target) -> str:
    """Runs above what may work at once get 429 and when to come again; none fails otherwise."""
    if target.burst < 2:
        raise Skipped("--burst N")
    body = {"lang": "py", "code": "import time; time.sleep(1)"}

    def one(_: int) -> httpx.Response:
        return target.http.post("/v1/exec", json=body)

    with ThreadPoolExecutor(target.burst) as pool:
        answers = list(pool.map(one, range(target.burst)))
    odd = sorted({answer.status_code for answer in answers} - {200, 429})
    # The gateway's own throttling answers 429 without a time.
    silent = [one for one in answers if one.status_code == 429 and "retry-after" not in one.headers and not target.aws]
    if odd or silent:
        raise Failed(f"status {odd[0]}" if odd else "429 without Retry-After")
    ran = sum(answer.status_code == 200 for answer in answers)
    return f"{ran} ran, {len(answers) - ran} told to wait"


NAMES = {
    "a+b.txt": "a%2Bb.txt",
    "p%q.txt": "p%25q.txt",
    "s%2Ft.txt": "s%252Ft.txt",
    "d/e.txt": "d/e.txt",
    "é;=.txt": "%C3%A9%3B%3D.txt",
}
"""Names of files, and how a careful client writes them in a path."""


def paths(target: Target) -> str:
    """A file is delivered under its own name, however that has to be written."""
    files = [("file", (name, name.encode())) for name in NAMES]
    stored = target.http.post("/v1/exec/upload/batch", files=files)
    if stored.status_code != 200:
        raise Failed(f"status {stored.status_code} of the upload")
    session = stored.json()["session_id"]
    for name, written in NAMES.items():
        status, body = target.raw("GET", f"/v1/download/{session}/{written}")
        if status in (301, 302, 303, 307, 308):
            raise Skipped("downloads are redirected to the store")
        if status != 200 or body != name.encode():
            raise Failed(f"{written}: status {status}")
    return f"{len(NAMES)} names"


TARGETS: tuple[tuple[str, set[int], set[int]], ...] = (
    ("/v1/health", {200}, {200}),
    ("/v1/%68ealth", {404}, {200, 404}),
    ("/v1/health/", {404}, {404}),
    ("/V1/HEALTH", {404}, {404}),
    ("//v1//health", {200}, {200, 404}),
    ("/v1/health?x=1;y=2&x=%zz", {200}, {200, 400}),
    ("/v1/download/AAAAAAAAAAAAAAAAAAAAA/%zz", {404}, {400, 404}),
    ("/v1/download/AAAAAAAAAAAAAAAAAAAAA/%252e%252e%252Fx", {404}, {404}),
    ("/v1/exec/../health", {404}, {400, 403, 404}),
    ("/v1/nothing", {404}, {404}),
)
"""A target as it goes out, what answers it at our own door and a function URL, and what may behind an HTTP API."""


def encodings(target: Target) -> str:
    """Encoded letters, slashes, doubled slashes, `;` and broken escapes lead where the contract says."""
    seen = []
    for sent, own, gateway in TARGETS:
        status, _ = target.raw("GET", sent)
        seen.append(f"{status}")
        if status not in (gateway if target.kind == "http-api" else own):
            raise Failed(f"{sent}: status {status}")
    return " ".join(seen)


def doubled_key(target: Target) -> str:
    """A credential that comes twice, one of them wrong, admits nobody."""
    pairs = [("X-API-Key", target.key), ("X-API-Key", "wrong")]
    seen = [target.raw_pairs("GET", "/v1/exec/runs/AAAAAAAAAAAAAAAAAAAAA", order)[0] for order in (pairs, pairs[::-1])]
    if not set(seen) <= {400, 401}:
        raise Failed(f"status {seen}")
    return f"refused: {seen[0]}"


def granted_upload(target: Target) -> str:
    """A grant takes exactly its bytes, once, and only with its condition."""
    data = secrets.token_bytes(100_000)
    asked = {"name": "granted.bin", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    made = target.http.post("/v1/exec/uploads", json=asked)
    if made.status_code != 201:
        raise Failed(f"status {made.status_code} of the grant")
    grant = made.json()
    url = grant["url"] if "://" in grant["url"] else target.url + grant["url"]

    def send(body: bytes, headers: dict[str, str]) -> int:
        return httpx.request(
            grant["method"], url, content=body, headers=headers, timeout=60, trust_env=False
        ).status_code

    headers = dict(grant["headers"])
    bare = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
    wrong = secrets.token_bytes(len(data))
    for what, status in (("without its condition", send(data, bare)), ("with other bytes", send(wrong, headers))):
        if status < 400:
            raise Failed(f"taken {what}")
    if (status := send(data, headers)) not in (200, 201):
        raise Failed(f"status {status} of the bytes")
    if send(data, headers) < 400:
        raise Failed("taken twice")
    joined = target.http.post(f"/v1/exec/uploads/{grant['upload_id']}/complete")
    if joined.status_code != 200:
        raise Failed(f"status {joined.status_code} of the completion")
    session = joined.json()["session_id"]
    back = target.http.get(f"/v1/download/{session}/granted.bin", follow_redirects=True)
    if back.content != data:
        raise Failed("other bytes come back")
    return "once, and whole"


def bucket_rules(target: Target) -> str:
    """The bucket refuses an unconditional put, a second one and a delete, even to you."""
    if target.bucket is None:
        raise Skipped("--bucket NAME and AWS credentials")
    import boto3  # noqa: PLC0415
    from botocore.exceptions import ClientError  # noqa: PLC0415

    s3 = boto3.client("s3", region_name=target.region)
    # Where nothing names it, so that the janitor takes it away.
    key = f"p/probe/s/{secrets.token_hex(10)}/{secrets.token_hex(10)}"
    where: Any = {"Bucket": target.bucket, "Key": key}

    def code(act: Callable[[], object]) -> str:
        try:
            act()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "done"

    seen = [
        code(lambda: s3.put_object(Body=b"x", **where)),
        code(lambda: s3.put_object(Body=b"x", IfNoneMatch="*", **where)),
        code(lambda: s3.put_object(Body=b"y", IfNoneMatch="*", **where)),
        code(lambda: s3.delete_object(**where)),
    ]
    plain = httpx.get(f"http://{target.bucket}.s3.amazonaws.com/{key}", timeout=30, trust_env=False).status_code
    if seen != ["AccessDenied", "done", "PreconditionFailed", "AccessDenied"] or plain == 200:
        raise Failed(f"{', '.join(seen)}; without TLS {plain}")
    return "refused, done, refused, refused"


CHECKS: tuple[Check, ...] = (
    layers, own_environment, other_processes, network, runtime_api, survivors, signals, two_tenants, time_out,
    too_many, paths, encodings, doubled_key, granted_upload, bucket_rules,
)  # fmt: skip
"""In this order: the layers come first, since what an attack may achieve depends on them."""

__all__ = ["CHECKS", "Check", "Open"]
