"""The samples of the HTTP function: an address of API Gateway, and one of a function URL."""

from __future__ import annotations

import base64
import json

import pytest

from functions.api.aws import Front
from tests.events.samples import SETTINGS, Context, Stage, load


@pytest.mark.parametrize("name", ["api/http-api", "stream/function-url"])
def test_the_sample_of_an_address_runs_its_program(stage: Stage, name: str) -> None:
    front = Front(lambda: stage.room, lambda: SETTINGS)
    answer = front(load(name, stage.values()), Context())
    raw = answer["body"].encode()
    body = json.loads(base64.b64decode(raw) if answer["isBase64Encoded"] else raw)
    assert (answer["statusCode"], body["stdout"]) == (200, "42\n")
