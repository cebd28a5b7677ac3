"""The gate of a JSON body, row by row and in its order, through a real route (agents.md 1.4)."""

from __future__ import annotations

import json

import pytest

from functions.api.agents.body import BODY_BYTES, FILE_BODY_BYTES, LARGE_BODY_BYTES
from tests.agents.asking import JSON, Asker, envelope

REQUEST = "invalid_request_error"


def invalid(message: str) -> bytes:
    return envelope(message, REQUEST, REQUEST)


TYPE = invalid("expected request with Content-Type: application/json")
UNICODE = invalid(
    "Invalid body: encountered a unicode decode error when parsing this JSON value. "
    "Please check the value to ensure it is valid unicode."
)
BROKEN = invalid(
    "Invalid body: failed to parse JSON value. Please check the value to ensure it is valid JSON. "
    "(Common errors include trailing commas, missing closing brackets, missing quotation marks, etc.)"
)
TOO_LARGE = envelope("The request is larger than the limit.", REQUEST, "request_too_large")
GOOD = b'{"bytes":1,"filename":"a","mime_type":"text/plain","purpose":"user_data"}'


def twice(name: str, path: str) -> bytes:
    return invalid(f"Invalid body: duplicate JSON key '{name}' at '{path}'. Duplicate JSON keys are not supported.")


@pytest.mark.parametrize("media", ["application/json", "APPLICATION/JSON; charset=utf-8", "application/problem+json"])
def test_these_content_types_are_json(api: Asker, media: str) -> None:
    assert api.ask("POST", "/v1/uploads", ("Content-Type", media), body=GOOD).status == 200


@pytest.mark.parametrize("media", ["", "text/json", "application/jsonx", "multipart/form-data; boundary=x",
                                   "application/json, application/json"])  # fmt: skip
@pytest.mark.parametrize("body", [b"", GOOD, b"{", b"\xff"])
def test_row_1_another_content_type_comes_before_what_is_in_the_body(api: Asker, media: str, body: bytes) -> None:
    headers = [("Content-Type", media)] if media else []
    answer = api.ask("POST", "/v1/uploads", *headers, body=body)
    assert (answer.status, answer.body) == (400, TYPE)


def test_row_2_the_limit_holds_to_the_byte(api: Asker) -> None:
    def padded(size: int) -> bytes:
        return GOOD[:-1] + b" " * (size - len(GOOD)) + b"}"

    assert api.ask("POST", "/v1/uploads", JSON, body=padded(BODY_BYTES)).status == 200
    for body in (padded(BODY_BYTES + 1), b"\xff" * (BODY_BYTES + 1)):
        answer = api.ask("POST", "/v1/uploads", JSON, body=body)
        assert (answer.status, answer.body) == (413, TOO_LARGE)


def test_the_limits_are_those_of_the_contract() -> None:
    assert (BODY_BYTES, LARGE_BODY_BYTES, FILE_BODY_BYTES) == (1_048_576, 16_777_216, 69_921_452)


ROWS = [
    (b"\xff", UNICODE), (b'{"a":"\xc3"}', UNICODE), (b'{"a":1,"a":"\xff"}', UNICODE),
    (b'{"a":"\xed\xa0\x80"}', UNICODE),
    (b"{", BROKEN), (b"{} {}", BROKEN), (b"\xef\xbb\xbf{}", BROKEN), (b"   ", BROKEN), (b'{"a":"\\ud800"}', BROKEN),
    (b'{"\\udc00":1}', BROKEN), (b'{"a":1,"a":2,}', BROKEN), (b'{"a":NaN}', BROKEN), (b"{'a':1}", BROKEN),
    (b'{"a":"\x01"}', BROKEN), (b'{"a":1,"a":"\\ud800"}', BROKEN),
    (b'{"a":1,"a":2}', twice("a", "a")), (b'{"a":{"b":1,"b":2}}', twice("b", "a.b")),
    (b'{"a":[{"b":1},{"c":1,"c":2}]}', twice("c", "a.c")), (b'[{"a":1,"a":2}]', twice("a", "a")),
    (b'{"a":{"x":1,"x":2},"a":1}', twice("x", "a.x")), (b'{"a":1,"a":{"x":1,"x":2}}', twice("a", "a")),
    (b'{"\\u0061":1,"a":2}', twice("a", "a")),
    (b'{"\\n":1,"\\n":2}', invalid("Invalid body: duplicate JSON key. Duplicate JSON keys are not supported.")),
    (b"[]", invalid("Invalid type: expected an object, but got an array instead.")),
    (b'"x"', invalid("Invalid type: expected an object, but got a string instead.")),
    (b"1", invalid("Invalid type: expected an object, but got an integer instead.")),
    (b"true", invalid("Invalid type: expected an object, but got a boolean instead.")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), ROWS)
def test_rows_3_to_6_in_their_order(api: Asker, body: bytes, expected: bytes) -> None:
    answer = api.ask("POST", "/v1/uploads", JSON, body=body)
    assert (answer.status, answer.body) == (400, expected)


@pytest.mark.parametrize("body", [b"", b"null", b"{}"])
def test_an_empty_body_and_null_are_an_empty_object(api: Asker, body: bytes) -> None:
    answer = api.ask("POST", "/v1/uploads", JSON, body=body)
    assert (answer.status, json.loads(answer.body)["error"]["param"]) == (400, "bytes")


def test_a_deep_body_and_one_of_too_many_values_are_refused(api: Asker) -> None:
    deep = api.ask("POST", "/v1/uploads", JSON, body=b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}")
    assert (deep.status, deep.body) == (400, BROKEN)
    many = api.ask("POST", "/v1/uploads", JSON, body=b'{"a":[' + b"1," * 200_000 + b"1]}")
    assert many.status == 400


def test_members_match_case_sensitively(api: Asker) -> None:
    answer = api.ask("POST", "/v1/uploads", JSON, body=GOOD.replace(b'"bytes"', b'"Bytes"'))
    assert (answer.status, json.loads(answer.body)["error"]["param"]) == (400, "Bytes")
