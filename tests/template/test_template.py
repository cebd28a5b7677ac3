"""template.yaml against every check; that each check can fail is shown in test_mutations."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from functions.api.app import published_operations
from functions.api.named import NAMED
from tests import tools
from tests.template import doors, placement, stores, watching
from tests.template.conftest import Served
from tests.template.reading import TEMPLATE, Node

Check = Callable[[Node], list[str]]

CHECKS: tuple[Check, ...] = (
    placement.tenancy,
    placement.snapshots,
    placement.versions,
    placement.sandbox_role,
    placement.network,
    stores.permissions,
    stores.bucket,
    stores.table,
    stores.queues,
    doors.environments,
    doors.times,
    doors.sizes,
    doors.parameters,
    doors.builds,
    doors.outputs,
    watching.logs,
    watching.alarms,
    watching.dashboard,
)


NO_HEAD = (
    "/v1/files/{file_id}/content",
    "/v1/agents/sessions/{session_id}/events",
    "/v1/agents/sessions/{session_id}/artifacts/{artifact_id}/content",
    "/v1/agents/environments/{environment_id}/files",
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_template_passes(template: Node, check: Check) -> None:
    assert check(template) == []


def test_every_route_of_the_service_is_a_route_of_the_api_and_no_other(template: Node, served: Served) -> None:
    assert doors.routes(template, served) == []


def test_typed_and_named_routes_are_all_that_is_served(served: Served) -> None:
    declared: set[tuple[str, str]] = {
        (operation.route.method, doors.gateway_path(path))
        for operation in published_operations()
        if operation.route is not None
        for path in operation.route.paths
    }
    declared |= {(route.method, doors.gateway_path(path)) for route in NAMED for path in route.paths}
    # HEAD is taken wherever GET is.
    declared |= {("HEAD", path) for method, path in declared if method == "GET"}
    # … but for these (agents.md 1.1, row 1c).
    declared -= {("HEAD", path) for path in NO_HEAD}
    assert declared == {(method, doors.gateway_path(path)) for method, path in served}


@pytest.mark.parametrize(
    "command", [("cfn-lint",), ("sam", "validate", "--lint", "--template")], ids=["cfn-lint", "sam"]
)
def test_the_linters_have_nothing_to_say(command: tuple[str, ...], tmp_path: object) -> None:
    program = tools.find("sam") / "bin" / command[0]
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "AWS_DEFAULT_REGION": "eu-central-1",
        "SAM_CLI_TELEMETRY": "0",
        # No network: whoever asks for one is refused at once.
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        [str(program), *command[1:], str(TEMPLATE)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=environment,
        cwd=str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
