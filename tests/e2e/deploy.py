"""template.yaml in the emulator: all of it that the emulator knows, and what the functions' environments then are.

Left out: the DNS firewall and alarms on expressions, which the emulator refuses. Every function's code is replaced by
a few lines that hand its event to `tests.e2e.lambdas`, where the real one runs; the image becomes such a function too.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from dataclasses import dataclass
from typing import Any

from tests.ministack import Ministack
from tests.template.reading import FUNCTION, Node, load

STACK = "workroom"
_CODE = "deployment"
_WAIT_S = 60.0
_FORWARD = """
import os, urllib.request

def handler(event, context):
    import json
    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or context.function_name
    address = "{address}/2015-03-31/functions/" + name + "/invocations"
    request = urllib.request.Request(address, json.dumps(event).encode(), method="POST")
    with urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request, timeout=120) as answer:
        body = json.loads(answer.read())
        if answer.headers.get("X-Amz-Function-Error"):
            raise RuntimeError("the function failed")
        return body
"""


@dataclass(frozen=True)
class Deployed:
    """What was made. `names` and `environments` are by logical id, of the functions."""

    outputs: dict[str, str]
    names: dict[str, str]
    environments: dict[str, dict[str, str]]


def handlers() -> dict[str, str]:
    """The handler of each function that is no image, as the template names it."""
    rows = load()["Resources"].items()
    return {
        name: row["Properties"]["Handler"]
        for name, row in rows
        if row["Type"] == FUNCTION and "Handler" in row["Properties"]
    }


def deploy(emulator: Ministack, address: str, parameters: dict[str, str] | None = None) -> Deployed:
    """Create the stack; events of its functions go to `address`."""
    session = emulator.session()
    formation = session.client("cloudformation", endpoint_url=emulator.endpoint)
    objects = emulator.clients().s3
    objects.create_bucket(Bucket=_CODE, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    objects.put_object(Bucket=_CODE, Key="code.zip", Body=_zip(address))
    objects.put_object(Bucket=_CODE, Key="template.json", Body=json.dumps(_known(load())).encode())
    formation.create_stack(
        StackName=STACK,
        TemplateURL=f"{emulator.endpoint}/{_CODE}/template.json",
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in (parameters or {}).items()],
    )
    stack = _made(formation)
    rows = formation.describe_stack_resources(StackName=STACK)["StackResources"]
    names = {
        row["LogicalResourceId"]: row["PhysicalResourceId"]
        for row in rows
        if row["ResourceType"] == "AWS::Lambda::Function"
    }
    functions = session.client("lambda", endpoint_url=emulator.endpoint)
    _poll_queues(functions)
    environments = {
        name: functions.get_function_configuration(FunctionName=physical)["Environment"]["Variables"]
        for name, physical in names.items()
    }
    outputs = {row["OutputKey"]: row["OutputValue"] for row in stack["Outputs"]}
    return Deployed(outputs, names, environments)


def _poll_queues(functions: Any) -> None:
    """Make the queues' mappings anew: the emulator polls for those only that its Lambda interface made."""
    for row in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.delete_event_source_mapping(UUID=row["UUID"])
        kept = ("EventSourceArn", "BatchSize", "FunctionResponseTypes", "ScalingConfig")
        functions.create_event_source_mapping(
            FunctionName=row["FunctionArn"].rpartition(":")[2], **{key: row[key] for key in kept if key in row}
        )


def _made(formation: Any) -> dict[str, Any]:
    deadline = time.monotonic() + _WAIT_S
    while True:
        stack: dict[str, Any] = formation.describe_stacks(StackName=STACK)["Stacks"][0]
        if stack["StackStatus"] == "CREATE_COMPLETE":
            return stack
        events = formation.describe_stack_events(StackName=STACK)["StackEvents"]
        failed = [
            (row["LogicalResourceId"], row.get("ResourceStatusReason")) for row in events
            if row["ResourceStatus"].endswith("FAILED")
        ]  # fmt: skip
        assert stack["StackStatus"] == "CREATE_IN_PROGRESS", failed
        assert time.monotonic() < deadline, "the stack is not made in time"
        time.sleep(0.1)


def _known(template: Node) -> Node:
    """The template with what the emulator knows, and code that hands events on."""
    template["Resources"] = {
        name: row
        for name, row in template["Resources"].items()
        if not row["Type"].startswith("AWS::Route53Resolver::") and "Metrics" not in row.get("Properties", {})
    }
    for row in template["Resources"].values():
        if row["Type"] == FUNCTION:
            properties = row["Properties"]
            row.pop("Metadata", None)
            for key in ("PackageType", "ImageConfig", "ImageUri"):
                properties.pop(key, None)
            properties |= {"CodeUri": {"Bucket": _CODE, "Key": "code.zip"}, "Handler": "forward.handler"}
            properties.setdefault("Runtime", "python3.13")
    return template


def _zip(address: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("forward.py", _FORWARD.format(address=address))
    return data.getvalue()
