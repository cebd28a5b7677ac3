"""The published document: everything that is served, described, with the statuses that it sends (DESIGN §2)."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route

from functions.api.app import create_app, published_operations
from functions.api.named import NAMED
from shared.operations.all import operations
from shared.settings import Settings
from tests.wire.service import Service

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
Schema = dict[str, Any]


@pytest.fixture(scope="module")
def document(service: Service) -> Schema:
    """The document as anyone gets it."""
    with service.client("") as client:
        answer = client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


@pytest.fixture(scope="module")
def app(service: Service) -> FastAPI:
    """An application of the same room, to walk its routes."""
    return create_app(service.room, Settings(port=0, dev_key=False))


def entries(document: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, item in document["paths"].items():
        for method, entry in item.items():
            assert method in METHODS
            yield path, method, entry


def walked(app: FastAPI) -> set[tuple[str, str]]:
    """What the application really serves: a walk of its routes, HEAD apart, which is a GET without its body."""
    served = set()
    for route in app.routes:
        assert isinstance(route, Route), "a mounted application would serve addresses that nobody lists"
        assert route.methods, route.path
        for method in route.methods - {"HEAD"}:
            served.add((method.lower(), re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)))
    return served


def is_agents(path: str) -> bool:
    """Whether an address is the Agents API's (agents.md 11.25)."""
    return path.startswith(("/v1/agents", "/v1/uploads", "/v1/files/{file_id}")) or path == "/v1/files"


def test_typed_and_named_are_what_is_served(app: FastAPI, document: Schema) -> None:
    typed = {
        (operation.route.method.lower(), re.sub(r"\{(\w+):\w+\}", r"{\1}", path))
        for operation in operations().values()
        if operation.audience == "caller" and operation.route is not None
        for path in operation.route.paths
    }
    named = {(route.method.lower(), re.sub(r"\{(\w+):\w+\}", r"{\1}", path)) for route in NAMED for path in route.paths}
    assert typed.isdisjoint(named)
    assert typed | named == walked(app)
    assert {(method, path) for path, method, _ in entries(document)} == walked(app)


def test_every_route_of_the_contract_is_served_under_both_bases(app: FastAPI) -> None:
    served = walked(app)
    both = {
        ("post", "upload"),
        ("post", "upload/batch"),
        ("get", "download/{session_id}/{file_id}"),
        ("get", "files/{session_id}"),
        ("delete", "files/{session_id}/{file_id}"),
        ("get", "sessions/{session_id}/objects/{file_id}"),
    }
    for method, path in both:
        assert (method, f"/v1/exec/{path}") in served
        assert (method, f"/v1/{path}") in served
    for path in ("", "/programmatic", "/programmatic/cancel"):
        assert ("post", f"/v1/exec{path}") in served
        assert ("post", f"/v1/exec/exec{path}") in served
    assert ("get", "/v1/health") in served


def test_operator_operations_are_not_served(document: Schema) -> None:
    text = json.dumps(document)
    for operation in operations().values():
        if operation.audience == "operator":
            assert operation.name.replace(".", "_") not in text
    assert "/keys" not in text


def test_it_is_valid_openapi(document: Schema) -> None:
    assert document["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(document).validate()


def test_every_operation_has_an_id_a_summary_and_a_description(document: Schema) -> None:
    ids = [entry["operationId"] for _, _, entry in entries(document)]
    assert len(ids) == len(set(ids))
    for path, method, entry in entries(document):
        assert len(entry["summary"].split()) >= 2, (method, path)
        assert len(entry["description"].split()) >= 4, (method, path)
        assert entry["tags"], (method, path)


def test_the_first_operation_that_a_reader_meets_runs_a_program(document: Schema) -> None:
    assert next(iter(document["paths"])) == "/v1/exec"


def test_what_only_the_route_does_is_told_in_the_document(document: Schema) -> None:
    for path, status in (("/v1/upload/batch", "400"), ("/v1/download/{session_id}/{file_id}", "206")):
        (entry,) = document["paths"][path].values()
        assert status in entry["description"]
        assert status in entry["responses"]


def test_no_summary_is_the_name_of_a_function(document: Schema) -> None:
    names = {
        name
        for operation in published_operations()
        for name in (operation.code.__name__, operation.name, operation.name.replace(".", " "))
    }
    names |= {name for name, _ in inspect.getmembers(inspect.getmodule(create_app), inspect.isfunction)}
    for _, _, entry in entries(document):
        plain = entry["summary"].lower()
        assert plain not in {name.lower().replace("_", " ") for name in names}
        assert plain not in {name.lower() for name in names}
        assert entry["operationId"].replace("_", " ").lower() != plain


def undescribed(schema: Any, place: str) -> Iterator[str]:
    """Every property, at any depth, that nothing is said of."""
    if isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from undescribed(inner, f"{place}[{index}]")
    elif isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            if not inner.get("description", "").strip():
                yield f"{place}.{name}"
            yield from undescribed(inner, f"{place}.{name}")
        for key, inner in schema.items():
            if key != "properties" and isinstance(inner, (dict, list)):
                yield from undescribed(inner, f"{place}/{key}")


def test_no_field_is_without_a_description(document: Schema) -> None:
    assert list(undescribed(document["components"]["schemas"], "schemas")) == []
    for path, method, entry in entries(document):
        for parameter in entry.get("parameters", []):
            assert parameter["description"].strip(), (method, path, parameter["name"])
        assert list(undescribed(entry, f"{method} {path}")) == []
        body = entry.get("requestBody")
        assert body is None or body["description"].strip()
        for status, response in entry["responses"].items():
            assert "$ref" in response or response["description"].strip(), (method, path, status)
            for name, header in response.get("headers", {}).items():
                assert header["description"].strip(), (method, path, name)
    for name, schema in document["components"]["schemas"].items():
        assert schema["description"].strip(), name
        assert schema["type"] == "array" or schema["properties"], name
    for scheme in document["components"]["securitySchemes"].values():
        assert scheme["description"].strip()


def test_the_members_of_the_answers_are_those_of_the_contract(document: Schema) -> None:
    schemas = document["components"]["schemas"]

    def answered(method: str, path: str, status: str = "200") -> Schema:
        content = document["paths"][path][method]["responses"][status]["content"]
        schema = content["application/json"]["schema"]
        return dict(schemas[schema["$ref"].rpartition("/")[2]])

    run = answered("post", "/v1/exec")
    assert set(run["properties"]) == {
        "session_id", "stdout", "stderr", "files", "deleted_files", "code", "signal", "status", "message", "wall_time"
    }  # fmt: skip
    file = schemas[run["properties"]["files"]["items"]["$ref"].rpartition("/")[2]]
    assert set(file["properties"]) == {
        "id", "name", "path", "storage_session_id", "session_id", "size", "inherited"
    }  # fmt: skip
    assert "inherited" not in file["required"]
    upload = answered("post", "/v1/exec/upload")
    assert {"message", "session_id", "storage_session_id", "files"} <= set(upload["required"])
    batch = answered("post", "/v1/exec/upload/batch")
    assert set(batch["properties"]) >= {"succeeded", "failed", "filesLimitReached", "maxFiles"}
    assert answered("get", "/v1/exec/files/{session_id}")["type"] == "array"


def test_every_parameter_of_a_path_is_declared_and_no_other(document: Schema) -> None:
    for path, method, entry in entries(document):
        declared = {row["name"] for row in entry.get("parameters", []) if row["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path)), (method, path)


def statuses(document: Schema, method: str, path: str) -> set[str]:
    return set(document["paths"][path][method]["responses"]) - {"default"}


def test_the_statuses_are_those_that_each_operation_sends(document: Schema) -> None:
    run = {"200", "202", "400", "404", "409", "422", "429", "502", "503", "504"}
    for path in ("/v1/exec", "/v1/exec/exec"):
        assert statuses(document, "post", path) == run
    for path in ("/v1/exec/programmatic", "/v1/exec/exec/programmatic"):
        assert statuses(document, "post", path) == {"501"}
        assert set(document["paths"][path]["post"]["responses"]["501"]) == {"description"}
        assert statuses(document, "post", path + "/cancel") == {"202"}
    for path in ("/v1/exec/upload", "/v1/upload", "/v1/exec/upload/batch", "/v1/upload/batch"):
        assert statuses(document, "post", path) == {"200", "400", "404", "409", "413"}
    for path in ("/v1/exec/download/{session_id}/{file_id}", "/v1/download/{session_id}/{file_id}"):
        assert statuses(document, "get", path) == {"200", "206", "302", "404", "416"}
    assert statuses(document, "get", "/v1/exec/download/{session_id}") == {"400"}
    for path in ("/v1/exec/files/{session_id}", "/v1/files/{session_id}"):
        assert statuses(document, "get", path) == {"200", "404"}
        assert statuses(document, "delete", path + "/{file_id}") == {"200", "404", "409"}
    assert statuses(document, "get", "/v1/exec/runs/{run_id}") == {"200", "404"}
    assert statuses(document, "put", "/v1/exec/grants/{token}") == {"201", "400", "403", "409"}
    assert statuses(document, "get", "/v1/health") == {"200"}
    assert statuses(document, "post", "/mcp") == {"200", "202", "400", "406", "413"}


def test_what_the_door_answers_is_declared_once(document: Schema) -> None:
    assert set(document["components"]["responses"]) == {"Door", "AgentsDoor"}
    for path, _, entry in entries(document):
        door = "AgentsDoor" if is_agents(path) else "Door"
        assert entry["responses"]["default"] == {"$ref": f"#/components/responses/{door}"}
    text = document["components"]["responses"]["Door"]["description"]
    for status in ("400", "401", "404", "405", "429", "500", "503"):
        assert status in text


def test_every_error_body_is_the_one_shape(document: Schema) -> None:
    error = document["components"]["schemas"]["Error"]
    assert set(error["properties"]) == {"error", "message", "retry_after_seconds"}
    assert error["required"] == ["error", "message"]
    for path, method, entry in entries(document):
        for status, response in entry["responses"].items():
            if status.isdigit() and int(status) >= 400 and "content" in response and path != "/mcp":
                schema = response["content"]["application/json"]["schema"]
                error = "AgentsError" if is_agents(path) else "Error"
                assert schema == {"$ref": f"#/components/schemas/{error}"}, (method, path, status)


def test_the_ways_to_send_a_key_are_declared(document: Schema) -> None:
    schemes = document["components"]["securitySchemes"]
    assert {(row["type"], row.get("scheme") or row.get("name")) for row in schemes.values()} == {
        ("apiKey", "X-API-Key"),
        ("http", "bearer"),
        ("http", "basic"),
    }
    assert [set(row) for row in document["security"]] == [{name} for name in schemes]
    free = {path for path, _, entry in entries(document) if entry.get("security") == []}
    assert free == {"/", "/docs", "/openapi.json", "/v1/exec/grants/{token}"} | {
        path for path in document["paths"] if path.startswith("/docs/")
    }


def test_the_pages_ask_no_other_server(service: Service) -> None:
    with service.client("") as client:
        waiting, seen = ["/", "/docs"], set[str]()
        while waiting:
            target = waiting.pop()
            seen.add(target)
            page = client.get(target)
            assert page.status_code == 200
            if page.headers["content-type"].startswith("text/html"):
                assert page.headers["x-content-type-options"] == "nosniff"
                assert "default-src 'self'" in page.headers["content-security-policy"]
                assert "://" not in page.text
                found = re.findall(r'(?:src|href)="([^"]+)"', page.text)
                # An icon of its own: a browser that has to look for one is refused, and says so in its console.
                assert found.pop(0) == "data:,"
                assert all(link.startswith("/") for link in found)
                waiting += [link for link in found if link not in seen]
        assert {"/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/openapi.json", "/v1/health"} <= seen
        bundle = client.get("/docs/swagger-ui-bundle.js")
        assert bundle.headers["content-type"].startswith("text/javascript")
        assert "SwaggerUIBundle" in bundle.text
