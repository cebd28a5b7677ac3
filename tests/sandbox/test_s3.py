"""The function with objects in an emulated S3: what it puts by signed address the service finds."""

from __future__ import annotations

import hashlib

import boto3
import pytest
from botocore.config import Config as ClientConfig

from sandbox_image.runner import grants
from sandbox_image.runner.grants import GrantFailed
from shared.executor.aws import LambdaExecutor
from shared.store.aws import open_aws
from tests.ministack import shared
from tests.sandbox.emulator import LIKE_LAMBDA, emulated
from tests.sandbox.rooms import Room


def test_outputs_requests_and_answers_go_through_s3() -> None:
    aws = shared()
    objects = open_aws(aws.clients(), aws.table(), aws.bucket()).objects
    with emulated(LIKE_LAMBDA) as function:
        client = boto3.client(
            "lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b",
            endpoint_url=function.url, config=ClientConfig(retries={"total_max_attempts": 1}),
        )  # fmt: skip
        made = Room(LambdaExecutor(client, "function", objects), objects, function, "like lambda")  # type: ignore[arg-type]
        wrote = made.bash("head -c 3000000 /dev/urandom > big; echo small > small; md5sum big small", "s")
        entry = next(entry for entry in wrote.changes if entry.path == "big")
        info = objects.head(entry.blob)
        assert info is not None
        assert (info.size, len(wrote.pack)) == (3_000_000, 6)
        made.bash("true")
        assert made.bash("md5sum big small", "s").stdout == wrote.stdout
        long = made.python("import sys; sys.stdout.write('\\x01' * 1_000_000)")
        assert long.stdout == "\x01" * 1_000_000
        assert made.bash(f": {'x' * 5_200_000}\necho large").stdout == "large\n"


def test_a_grant_of_s3_serves_the_runner_once_and_exactly() -> None:
    aws = shared()
    objects = open_aws(aws.clients(), aws.table(), aws.bucket()).objects
    for size in (0, 5, 3 << 20):
        key = f"p/s/{size}"
        body = bytes(range(256)) * (size // 256 + 1)
        body = body[:size]
        url = objects.grant_write(key, seconds=60).url
        assert grants.create(url, [body]) == (size, hashlib.sha256(body).hexdigest())
        with pytest.raises(GrantFailed):
            grants.create(url, [body])
        assert b"".join(objects.read(key)) == body
        if size:
            read = objects.grant_read(key, seconds=60).url
            assert b"".join(grants.read(read, 1, size - 2)) == body[1 : size - 1]
            with pytest.raises(GrantFailed):
                b"".join(grants.read(read, 1, size))
            with pytest.raises(GrantFailed):
                grants.create(read, [body])
    with pytest.raises(GrantFailed):
        b"".join(grants.read(objects.grant_read("p/s/none", seconds=60).url, 0, 1))
