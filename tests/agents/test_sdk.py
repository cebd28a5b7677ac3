"""The official client, in strict response validation, against a running service (agents.md 7, 9, 11.43)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.agents.asking import Asker


@pytest.fixture
def client(api: Asker) -> Iterator[openai.OpenAI]:
    """A client of the first project. It sends nothing again, so that a refusal is one request."""
    made = openai.OpenAI(
        api_key=api.service.key,
        base_url=f"{api.service.url}/v1",
        max_retries=0,
        timeout=30,
        _strict_response_validation=True,
    )
    with made:
        yield made


def test_files_from_creation_to_deletion(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "näme.txt"
    path.write_bytes(b"some bytes")
    made = client.files.create(file=path, purpose="user_data")
    assert (made.filename, made.bytes, made.status) == ("näme.txt", 10, "processed")
    assert client.files.retrieve(made.id) == made
    other = client.files.create(file=("b.bin", b""), purpose="user_data")
    listed = [row.id for row in client.files.list(limit=1, order="asc", purpose="user_data")]
    assert listed.index(made.id) < listed.index(other.id)
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.content(made.id)
    assert (refused.value.code, refused.value.param, refused.value.type) == (None, None, "invalid_request_error")
    assert client.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError) as gone:
        client.files.retrieve(made.id)
    assert gone.value.param == "id"
    assert (gone.value.request_id or "").startswith("req_")


def test_a_file_in_parts(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "big.bin"
    path.write_bytes(bytes(range(250)) * 10)
    done = client.uploads.upload_file_chunked(file=path, mime_type="text/plain", purpose="user_data", part_size=1_000)
    assert done.status == "completed"
    assert done.file is not None
    assert client.files.retrieve(done.file.id).bytes == 2_500
    begun = client.uploads.create(bytes=1, filename="a", mime_type="text/plain", purpose="user_data")
    assert client.uploads.cancel(begun.id).status == "cancelled"


def test_a_wrong_key_is_an_authentication_error(api: Asker) -> None:
    with openai.OpenAI(api_key="nonsense", base_url=f"{api.service.url}/v1", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            client.files.list()
        assert refused.value.code == "invalid_api_key"
