"""Checks of routes, environments, times, sizes, parameters and builds. Each gives its complaints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields

from functions.room import check_settings
from shared.limits import MIB, Limits
from shared.operations.agents.program import PROGRAMS
from shared.settings import BadSetting, Settings
from tests.template.reading import (
    PROJECT,
    Node,
    environment,
    functions,
    of_type,
    references,
    sandboxes,
    text,
)

_OPENS = {"WORKROOM_STORE", "WORKROOM_EXECUTOR", "WORKROOM_TABLE", "WORKROOM_BUCKET", "WORKROOM_EXECUTOR_FUNCTION"}
_LIVES = {f"WORKROOM_{name}_LIFETIME_S" for name in ("SESSION", "ENVIRONMENT", "WAITING")}
_LIMITS = {"WORKROOM_RUN_MS", "WORKROOM_MEMORY_MIB"} | _LIVES
_ADMITS = {f"WORKROOM_JWT_{name}" for name in ("KEY", "ISSUER", "AUDIENCE", "PROJECT")}
_EVERY = _OPENS | _LIMITS | {"WORKROOM_LOG_LEVEL"}
_FRONT = _EVERY | _ADMITS | {"WORKROOM_ISOLATION", "WORKROOM_QUEUE_URL", "WORKROOM_DEFAULT_MODEL"}
NEEDED = {
    "ApiFunction": _FRONT | {"WORKROOM_ANSWER_MS", "WORKROOM_ANSWER_BYTES", "WORKROOM_LOCK_WAIT_MS"},
    "StreamFunction": _FRONT
    | {"AWS_LAMBDA_EXEC_WRAPPER", "AWS_LWA_PORT", "AWS_LWA_INVOKE_MODE", "AWS_LWA_READINESS_CHECK_PATH"},
    "DirectFunction": _FRONT | {"WORKROOM_ANSWER_BYTES"},
    "WorkerFunction": _EVERY
    | {"WORKROOM_ISOLATION", "WORKROOM_EVENT_BUS", "WORKROOM_QUEUE_URL", "WORKROOM_TURN_RUN_MS"},
    "JanitorFunction": _EVERY | {"WORKROOM_QUEUE_URL"},
    "SandboxFunction": {"WORKROOM_ALONE"},
}
"""What each function reads of its environment."""

ENVIRONMENT_BYTES = 4096
API_MS = 30_000
ANSWER_BYTES = 6_291_556
_SAMPLES = {"WORKROOM_RUN_MS": "20000", "WORKROOM_MEMORY_MIB": "1280", "WORKROOM_SESSION_LIFETIME_S": "86400"}
_LONGEST = {"Table": 255, "Bucket": 63, "SandboxFunction": 64, "RunQueue": 160, "RunMemory": 5}
"""Characters of what a reference becomes."""


def routes(template: Node, served: Iterable[tuple[str, str]]) -> list[str]:
    """The HTTP API has what the application serves, each with its method, by name; it reaches the API function."""
    rows = of_type(template, "AWS::ApiGatewayV2::Route")
    keys = [row["RouteKey"] for row in rows.values()]
    shapes = [shape(key) for key in keys]
    found = [f"{key}: twice" for key in sorted(set(keys)) if shapes.count(shape(key)) > 1]
    for name, row in rows.items():
        if row["RouteKey"] == "$default" or row["RouteKey"].startswith("ANY "):
            found.append(f"{name}: catches what has no name")
        if references(row["Target"]) - {"HttpApi"} != {"ApiIntegration"} or text(row["ApiId"]) != "HttpApi":
            found.append(f"{name}: leads elsewhere")
    wanted = {f"{method} {gateway_path(path)}" for method, path in served}
    there, asked = set(shapes), {shape(key) for key in wanted}
    found += [f"{key}: is served and has no route" for key in sorted(wanted) if shape(key) not in there]
    found += [f"{key}: is no route of the service" for key in sorted(set(keys)) if shape(key) not in asked]
    for name, row in of_type(template, "AWS::ApiGatewayV2::Integration").items():
        if (row["IntegrationType"], row.get("PayloadFormatVersion")) != ("AWS_PROXY", "2.0"):
            found.append(f"{name}: another payload format than the function reads")
    for name, row in of_type(template, "AWS::ApiGatewayV2::Stage").items():
        settings = row.get("DefaultRouteSettings", {})
        if row["StageName"] != "$default" or row.get("AutoDeploy") is not True:
            found.append(f"{name}: the stage's name would be part of every path")
        if {text(value) for value in settings.values()} != {"ThrottleRate", "ThrottleBurst"}:
            found.append(f"{name}: throttling is not a setting")
        if set(re.findall(r"\$context\.([a-z]\w*)", row["AccessLogSettings"]["Format"])) & {"path", "protocol"}:
            found.append(f"{name}: paths get into its log")
    for name, row in of_type(template, "AWS::ApiGatewayV2::Api").items():
        if text(row.get("CorsConfiguration", {}).get("Fn::If", [""])[0]) != "HasCors":
            found.append(f"{name}: CORS is not a setting")
    return found


def gateway_path(path: str) -> str:
    """A path of the application as the HTTP API writes it: a parameter that takes slashes is greedy."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", re.sub(r"\{(\w+):path\}", r"{\1+}", path))


def shape(key: str) -> str:
    """A route key without the names of its parameters: the gateway takes two that differ in nothing else for one."""
    return re.sub(r"\{\w+(\+?)\}", r"{\1}", key)


def environments(template: Node) -> list[str]:
    """Every function has what it reads, nothing else, only real settings, values that they take, in 4 KB."""
    found = []
    known = {f"WORKROOM_{field.name.upper()}" for field in fields(Settings)}
    parameters = template["Parameters"]
    for name, row in functions(template).items():
        variables = environment(row)
        need = NEEDED.get(name, set())
        found += [f"{name}: lacks {key}" for key in sorted(need - set(variables))]
        found += [f"{name}: has {key}, which it does not read" for key in sorted(set(variables) - need)]
        size = sum(len(key) + _most(value, parameters) for key, value in variables.items())
        if size > ENVIRONMENT_BYTES:
            found.append(f"{name}: {size} bytes of environment")
        if name in sandboxes(template):
            source = (PROJECT / "functions/sandbox/app.py").read_text("utf-8")
            found += [f"{name}: does not know {key}" for key in variables if f'"{key}"' not in source]
            continue
        found += [
            f"{name}: {key} is no setting" for key in variables if key.startswith("WORKROOM_") and key not in known
        ]
        # `known` has said already what is no setting; what is left has to be read, and to open a room.
        given = {key: _sample(key, value, parameters) for key, value in variables.items() if key in known}
        try:
            settings = Settings.read(given)
            check_settings(settings)
            if (settings.store, settings.executor) != ("aws", "lambda"):
                found.append(f"{name}: would look for a store or a sandbox of its own")
        except BadSetting as error:
            found.append(f"{name}: {error}")
    return found


def _sample(key: str, value: object, parameters: Node) -> str:
    """A value as it is with the template's defaults, or of the same kind."""
    if not isinstance(value, dict):
        return str(value)
    if (name := value.get("Ref")) in parameters:
        return str(parameters[name].get("Default", ""))
    return _SAMPLES.get(key, "made-by-the-stack")


def _most(value: object, parameters: Node) -> int:
    if not isinstance(value, dict):
        return len(str(value))
    name = value["Ref"] if "Ref" in value else value["Fn::FindInMap"][0]
    if name not in parameters:
        return _LONGEST[name]
    row = parameters[name]
    if "AllowedValues" in row:
        return max(len(str(one)) for one in row["AllowedValues"])
    return int(row["MaxLength"]) if row["Type"] == "String" else len(str(row["MaxValue"]))


def times(template: Node) -> list[str]:
    """What waits for something waits longer than that takes."""
    found = []
    limits = Limits()
    rows = functions(template)
    api = environment(rows["ApiFunction"])
    answer = int(api.get("WORKROOM_ANSWER_MS", 0))
    if not 0 < answer <= API_MS - 1_000 or rows["ApiFunction"]["Timeout"] * 1000 < answer + 1_000:
        found.append("ApiFunction: the gateway or Lambda gives up before its answer")
    if int(api.get("WORKROOM_LOCK_WAIT_MS", limits.lock_wait_ms)) + 15_000 > answer:
        found.append("ApiFunction: waiting for a session leaves no time to run")
    for row in of_type(template, "AWS::ApiGatewayV2::Integration").values():
        if row.get("TimeoutInMillis", API_MS) != API_MS:
            found.append("ApiIntegration: gives up early")
    # In Base64 and with its envelope an answer has to fit into what Lambda carries.
    if int(api.get("WORKROOM_ANSWER_BYTES", 0)) * 4 // 3 + 65_536 > ANSWER_BYTES or "WORKROOM_ANSWER_BYTES" not in api:
        found.append("ApiFunction: answers may be larger than Lambda carries")
    if int(environment(rows["DirectFunction"]).get("WORKROOM_ANSWER_BYTES", ANSWER_BYTES)) + 65_536 > ANSWER_BYTES:
        found.append("DirectFunction: answers may be larger than Lambda carries")
    longest = limits.run_ms_max / 1000
    for name, row in rows.items():
        if row["Timeout"] > 900:
            found.append(f"{name}: no function runs for longer than 900 s")
        if name in sandboxes(template) and row["Timeout"] < longest + 30:
            found.append(f"{name}: ends before the longest run")
        if name in ("WorkerFunction", "StreamFunction", "DirectFunction"):
            sandbox = rows["SandboxFunction"]["Timeout"]
            wait = int(environment(row).get("WORKROOM_LOCK_WAIT_MS", limits.lock_wait_ms)) / 1000
            if row["Timeout"] < wait + sandbox:
                found.append(f"{name}: ends before a run that had to wait")
    run = template["Parameters"]["RunMs"]
    if run["MaxValue"] > limits.run_ms_max or run["Default"] >= answer:
        found.append("RunMs: longer than a run may take, or by default than an answer")
    return found


def sizes(template: Node) -> list[str]:
    """Memory and disk of the sandbox: what a program may have is there, and the runner's beside it."""
    found = []
    limits = Limits()
    mapped = template["Mappings"]["RunMemory"]
    allowed = template["Parameters"]["ExecutorMemoryMiB"]["AllowedValues"]
    if set(allowed) != set(mapped):
        found.append("ExecutorMemoryMiB: a size without a program's share")
    for size, row in mapped.items():
        if not 512 <= int(row["MiB"]) <= int(size) - 384:
            found.append(f"RunMemory {size}: leaves the runner too little, or the program")
    for name, row in sandboxes(template).items():
        disk = row.get("EphemeralStorage", {}).get("Size", 512) * MIB
        # What was there, what a run leaves, /tmp.
        if disk < 2 * limits.workspace_bytes + limits.tmp_bytes:
            found.append(f"{name}: its disk does not hold a workspace, its next version and /tmp")
    return found


def parameters(template: Node) -> list[str]:
    """Every parameter is described, used, and has a default: the template deploys as it is."""
    found = []
    used = references(template["Resources"]) | references(template["Conditions"]) | references(template["Mappings"])
    for name, row in template["Parameters"].items():
        found += [f"{name}: has no description"] if not row.get("Description") else []
        found += [f"{name}: has no default"] if "Default" not in row else []
        found += [f"{name}: changes nothing"] if name not in used else []
    scopes = template["Parameters"]["Isolation"]["AllowedValues"]
    choices = next(field for field in fields(Settings) if field.name == "isolation").metadata["choices"]
    found += ["Isolation: other scopes than the setting's"] if set(scopes) != set(choices) else []
    engines = template["Parameters"]["DefaultModel"]["AllowedValues"]
    longest = template["Parameters"]["TurnRunMs"]["MaxValue"]
    found += ["TurnRunMs: longer than a program of a Turn may take"] if longest > Limits().run_ms_max else []
    found += ["DefaultModel: other engines than the service's"] if set(engines) != {"", *PROGRAMS.models} else []
    return found


def builds(template: Node) -> list[str]:
    """Zip functions: for the target, by the makefile that has a rule for each; handlers that exist; an image's file."""
    found = []
    makefile = (PROJECT / "functions/Makefile").read_text("utf-8")
    made = set(re.findall(r"^FUNCTIONS := (.*)$", makefile, re.M)[0].split())
    zips = {name: row for name, row in functions(template).items() if name not in sandboxes(template)}
    found += [f"{name}: the makefile does not build it" for name in sorted(set(zips) ^ made)]
    for name, row in zips.items():
        about = template["Resources"][name].get("Metadata", {})
        if about != {"BuildMethod": "makefile", "WorkingDirectory": "."} or row["CodeUri"] != "functions/":
            found.append(f"{name}: is built from the host's packages")
        if row["Runtime"] != f"python{re.findall(r'^VERSION +:= (.*)$', makefile, re.M)[0]}":
            found.append(f"{name}: wheels of another Python")
        if row["Architectures"] != ["arm64"] or "aarch64" not in makefile:
            found.append(f"{name}: wheels of another processor")
        module, _, attribute = row["Handler"].rpartition(".")
        if row["Handler"] != "run.sh" and f"def {attribute}(" not in (
            PROJECT / f"{module.replace('.', '/')}.py"
        ).read_text("utf-8"):
            found.append(f"{name}: has no handler")
    for name in sandboxes(template):
        about = template["Resources"][name].get("Metadata", {})
        if not {"Dockerfile", "DockerContext", "DockerTag"} <= set(about):
            found.append(f"{name}: does not say how its image is built")
    return found


def outputs(template: Node) -> list[str]:
    """The addresses, and the command that makes the first key."""
    values = template.get("Outputs", {})
    found = [f"{name}: is not told" for name in ("Url", "StreamUrl", "MakeFirstKey") if name not in values]
    command = text(values.get("MakeFirstKey", {}).get("Value", ""))
    needed = ("WORKROOM_STORE=aws", "WORKROOM_TABLE=${Table}", "WORKROOM_BUCKET=${Bucket}", "workroom keys create")
    found += [f"MakeFirstKey: lacks {part}" for part in needed if part not in command]
    return found
