"""Every limit of the service, in one frozen dataclass.

The README's table is made from this class (`python -m functions.cli.docs`), so each field carries its unit and
its sentence here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def _limit(default: int, unit: str, doc: str) -> int:
    value: int = field(default=default, metadata={"unit": unit, "doc": doc})
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that a request, a program or a stored thing meets. Tests pass small numbers."""

    body_bytes: int = _limit(8 * MIB, "bytes", "a JSON request body")
    held_bytes: int = _limit(512 * MIB, "bytes", "JSON bodies that one process holds at once; one more byte is 429")
    project_held_bytes: int = _limit(256 * MIB, "bytes", "the same of one project; then 429")
    code_bytes: int = _limit(1 * MIB, "bytes", "a program, in UTF-8")
    args_bytes: int = _limit(64 * KIB, "bytes", "all arguments of a program together, in UTF-8")
    run_files: int = _limit(1_000, "entries", "`files` of one run")
    label_bytes: int = _limit(1 * KIB, "bytes", "a label (`user_id`, `entity_id`, `runtime_session_hint`)")
    stdout_bytes: int = _limit(1 * MIB, "bytes", "standard output that is kept of one run")
    stderr_bytes: int = _limit(1 * MIB, "bytes", "standard error that is kept of one run")
    flood_bytes: int = _limit(64 * MIB, "bytes", "output of one stream at which a program is stopped")
    run_ms: int = _limit(30_000, "ms", "the run time of a request that names no `timeout`")
    run_ms_max: int = _limit(300_000, "ms", "the longest `timeout` of a request")
    memory_bytes: int = _limit(1 * GIB, "bytes", "memory of a run: all its processes and /tmp together")
    processes: int = _limit(512, "processes", "processes and threads of a run")
    open_files: int = _limit(1_024, "descriptors", "open files of a process")
    tmp_bytes: int = _limit(512 * MIB, "bytes", "/tmp of a run, which also counts as memory")
    workspace_bytes: int = _limit(1 * GIB, "bytes", "all files of a workspace together")
    workspace_entries: int = _limit(20_000, "entries", "files, folders and links of a workspace")
    names_bytes: int = _limit(8 * MIB, "bytes", "all paths and targets of links of a workspace together, in UTF-8")
    file_bytes: int = _limit(256 * MIB, "bytes", "one file that a program writes")
    upload_bytes: int = _limit(150 * MIB, "bytes", "one uploaded file")
    source_bytes: int = _limit(512 * MIB, "bytes", "one source file of a project (`/v1/files`)")
    source_part_bytes: int = _limit(64 * MIB, "bytes", "one part of a source file (`/v1/uploads`)")
    source_parts: int = _limit(1_000, "parts", "parts of one source file")
    source_upload_ms: int = _limit(3_600_000, "ms", "the life of an upload in parts that is not completed")
    batch_files: int = _limit(200, "files", "files of one batch upload")
    path_bytes: int = _limit(5_000, "bytes", "a path in a workspace, in UTF-8")
    path_depth: int = _limit(80, "segments", "a path in a workspace")
    name_bytes: int = _limit(255, "bytes", "one segment of a path, in UTF-8")
    inline_bytes: int = _limit(3 * MIB, "bytes", "small outputs that come back inside the executor's answer")
    small_file_bytes: int = _limit(1 * MIB, "bytes", "a file up to this size is packed with others")
    write_grants: int = _limit(16, "objects", "large outputs of one run that get an object of their own")
    packs: int = _limit(12, "objects", "packs of a workspace before the next run rewrites them into one")
    inline_item_bytes: int = _limit(32 * KIB, "bytes", "what is kept in a state item; more becomes an object")
    lease_ms: int = _limit(30_000, "ms", "the lease of a session's lock, renewed while a run goes on")
    lock_wait_ms: int = _limit(330_000, "ms", "waiting for a session that another run holds; then 409")
    run_queue: int = _limit(256, "runs", "runs that wait or work at once; one more is 429")
    project_runs: int = _limit(128, "runs", "the same of one project, so that it cannot take every place; then 429")
    streams: int = _limit(512, "streams", "event streams that are open at once in one process; one more is 429")
    project_streams: int = _limit(128, "streams", "the same of one project; then 429")
    answer_ms: int = _limit(0, "ms", "one answer in all: waiting, restoring, running and storing; 0: no bound")
    answer_bytes: int = _limit(0, "bytes", "one answer, as encoded JSON: output and lists are cut; 0: no bound")
    queue_ms: int = _limit(900_000, "ms", "how long a background run waits for a worker; then it has failed")
    grant_ms: int = _limit(900_000, "ms", "the life of an upload grant")
    record_ms: int = _limit(86_400_000, "ms", "how long an Idempotency-Key and an asynchronous result are kept")
    session_ms: int = _limit(86_400_000, "ms", "a session's life after its last run, upload or deletion")
    turn_run_ms: int = _limit(300_000, "ms", "one program of a Turn, where the answer's time does not bound it")
    environment_ms: int = _limit(86_400_000, "ms", "an Environment's life after its last activity")
    waiting_ms: int = _limit(3_600_000, "ms", "how long a Turn waits for results of function calls; then it has failed")
    setup_ms: int = _limit(300_000, "ms", "one setup command of an Environment")
    mcp_image_bytes: int = _limit(4 * MIB, "bytes", "images of one MCP answer together; more are only named")
    typed_file_bytes: int = _limit(4 * MIB, "bytes", "file content inside a typed operation (MCP, CLI call)")
