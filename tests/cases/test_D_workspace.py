"""cases.md D: the workspace of a session, what counts as output, runs at once; through HTTP."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cases.door import MIB, Ran, Service, at_once


def test_D1_all_uploads_are_there_in_every_run(service: Service) -> None:
    session = service.upload("a", b"1")
    service.upload("dir/b", b"2", session)
    service.upload("c.csv", b"3", session)
    for _ in range(2):
        service.run("py", "import os\nprint(sorted(os.listdir()), os.listdir('dir'))\n", session).expect(
            "['a', 'c.csv', 'dir'] ['b']\n"
        )
    service.run("js", "console.log(require('fs').readdirSync('.').join())", session).expect("a,c.csv,dir\n")


@pytest.mark.parametrize("spelling", ["storage_session_id", "session_id"])
def test_D2_both_spellings_of_a_home(service: Service, spelling: str) -> None:
    """Also for a file of another session, mounted under a name of its own."""
    session = service.upload("in.csv", b"x")
    home = service.run("bash", "true").session
    ran = service.run(
        "bash", "cat deep/mine.csv", home, files=[{"id": "in.csv", "name": "deep/mine.csv", spelling: session}]
    )
    ran.expect("x")
    assert service.names(home) == ["deep/mine.csv"]
    assert service.names(session) == ["in.csv"]


def test_D2_of_two_references_with_one_name_the_last_wins(service: Service) -> None:
    """Said on stderr; neither home is changed, and the session goes on (cases.md C10)."""
    one, two = service.upload("data.csv", b"one"), service.upload("data.csv", b"two")
    home = service.run("bash", "true").session
    files = [{"id": "data.csv", "name": "data.csv", "session_id": session} for session in (one, two)]
    ran = service.run("bash", "cat data.csv", home, files=files).expect_end(0)
    assert ran.stdout == "two"
    assert ran.stderr == 'workroom: input file "data.csv" was named twice; the last one is used\n'
    assert (service.read(one, "data.csv"), service.read(two, "data.csv")) == (b"one", b"two")
    service.run("bash", "cat data.csv; echo changed > data.csv", home).expect("two", ["data.csv"])
    kept = service.run("bash", "cat data.csv", home, files=files[1:]).expect_end(0)
    assert kept.stdout == "changed\n"


def test_D3_the_returned_id_is_the_same_workspace(service: Service) -> None:
    session = service.run("bash", "echo 1 > a").expect("", ["a"]).session
    service.run("py", 'print(open("a").read(), end="")', session).expect("1\n")
    service.run("php", "<?php file_put_contents('a', '2');", session).expect("", ["a"])
    service.run("r", 'cat(readLines("a", warn = FALSE))', session).expect("2")


def test_D3_a_file_alone_names_the_session(service: Service) -> None:
    """`files[]` without `session_id`: the run happens where the file is (exec.md A8.3)."""
    first = service.run("bash", "echo 1 > a; echo 2 > b")
    row = first.files[0]
    reference = {"id": row["id"], "name": row["name"], "storage_session_id": row["storage_session_id"]}
    second = service.run("bash", "cat b; echo 3 > c", files=[reference])
    assert second.session == first.session
    second.expect("2\n", ["c"])
    third = service.run("bash", "ls", files=[{"id": "gone", "session_id": first.session}, reference])
    assert third.session == first.session
    assert (third.stdout, third.stderr) == ("a\nb\nc\n", 'workroom: input file "gone" is not available\n')


def test_D3_a_hint_is_a_session_of_its_own(service: Service) -> None:
    hint = {"runtime_session_hint": "conversation-D3", "user_id": "u1"}
    first = service.run("bash", "echo 1 > a", **hint)
    assert service.run("bash", "cat a", **hint).expect("1\n").session == first.session
    other = service.run("bash", "ls", runtime_session_hint="conversation-D3", user_id="u2").expect("")
    assert other.session != first.session
    assert service.run("bash", "ls", key=service.other_key, **hint).expect("").session != first.session


def test_D4_the_answer_and_the_listing_agree(service: Service) -> None:
    code = (
        "import os\nos.makedirs('x/y'); open('x/y/z.txt', 'w').write('z')\nos.makedirs('empty/er')\n"
        "open('x/.hidden', 'w').close()\nos.makedirs('.dot/d'); open('.dot/d/f', 'w').write('f')\n"
        "os.symlink('x/y/z.txt', 'link'); os.mkfifo('fifo')\nopen('é', 'w').write('1')\n"
    )
    ran = service.run("py", code).expect("", [".dot/d/f", "x/.hidden", "x/y/z.txt", "é"])
    rows = service.rows(ran.session)
    assert [(row["id"], row["size"], row["metadata"]["original-filename"]) for row in rows] == [
        (row["id"], row["size"], row["name"]) for row in ran.files
    ]
    service.run("bash", "find empty -type d | sort; [ -p fifo ] && readlink link", ran.session).expect(
        "empty\nempty/er\nx/y/z.txt\n"
    )


@pytest.mark.parametrize("seed", range(4))
def test_D4_a_random_tree_is_what_both_say(service: Service, seed: int) -> None:
    """The program prints what it left; the answers, the listing and a later walk say the same."""
    code = (
        "import os, random, shutil, sys\nrng = random.Random(int(sys.argv[1]))\n"
        "def walk(): return sorted(os.path.relpath(os.path.join(p, f)) for p, _, fs in os.walk('.') for f in fs)\n"
        "for _ in range(60):\n"
        "    p = os.path.join('.', *rng.choices(['a', 'b', 'ç', '-', ' '], k=rng.randint(1, 4)))\n"
        "    try:\n"
        "        match rng.randint(0, 5):\n"
        "            case 0: os.makedirs(p, exist_ok=True)\n"
        "            case 1: os.unlink(p)\n"
        "            case 2: shutil.rmtree(p)\n"
        "            case 3: os.rename(p, os.path.join(os.path.dirname(p), 'moved'))\n"
        "            case _:\n"
        "                os.makedirs(os.path.dirname(p), exist_ok=True)\n"
        "                open(p, 'ab').write(rng.randbytes(rng.choice([0, 1, 5000])))\n"
        "    except OSError: pass\n"
        "print('\\n'.join(walk()))\n"
    )
    session, before = None, set[str]()
    for step in range(2):
        ran = service.run("py", code, session, args=[str(seed * 10 + step)]).expect_end(0)
        session = ran.session
        shown = ran.stdout.splitlines() if ran.stdout.strip() else []
        assert set(service.names(session)) == set(shown)
        assert service.names(session) == sorted(shown, key=str.encode)
        assert set(ran.names) | before >= set(shown)
        assert set(ran.deleted) == before - set(shown)
        before = set(shown)


def test_D6_backdated_copied_and_unpacked_files_are_outputs(service: Service) -> None:
    session = service.upload("in.csv", b"data")
    code = (
        "cp -p in.csv out.csv; echo n > new.txt; touch -d 2000-01-01 new.txt; touch -d 2100-01-01 later\n"
        "mkdir t; echo u > t/unpacked; touch -d 1999-12-31 t/unpacked\n"
        "tar cf /tmp/t.tar t; rm -r t; tar xpf /tmp/t.tar\n"
        "touch -d @0 epoch; touch -d 1901-01-01 before\n"
    )
    service.run("bash", code, session).expect("", ["before", "epoch", "later", "new.txt", "out.csv", "t/unpacked"])
    service.run("bash", "stat -c '%n %Y' new.txt epoch t/unpacked; cat t/unpacked", session).expect(
        "new.txt 946684800\nepoch 0\nt/unpacked 946598400\nu\n"
    )


def test_D6_a_change_that_leaves_size_and_time_is_found(service: Service) -> None:
    session = service.run("bash", "printf aaa > f; printf bbb > g; printf c > same").session
    code = (
        "import os\nt = os.stat('f'); open('f', 'r+').write('zzz'); os.utime('f', ns=(t.st_atime_ns, t.st_mtime_ns))\n"
    )
    service.run("py", code, session).expect("", ["f"])
    service.run("bash", "printf ddd > x; touch -r g x; mv x g; cat f", session).expect("zzz", ["g"])
    assert service.read(session, "g") == b"ddd"
    service.run("bash", "cat f g same > /dev/null; touch -a f", session).expect("")
    # mmap writes and a rename within the folder are changes like any other.
    code = "import mmap\nf = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0] = 33; m.close()\n"
    service.run("py", code, session).expect("", ["f"])
    ran = service.run("bash", "mv f moved; chmod 755 g", session)
    assert (ran.names, ran.deleted) == (["g", "moved"], ["f"])
    assert service.read(session, "moved") == b"!zz"


def test_D7_only_the_file_system_is_looked_at(service: Service) -> None:
    code = 'import pandas as pd\npd.DataFrame([1]).to_csv("o.csv")\nprint("saved fake.csv")\n'
    ran = service.run("py", code).expect("saved fake.csv\n", ["o.csv"])
    assert service.read(ran.session, "o.csv") == b",0\n0,1\n"


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("import mod, other\nprint(mod.x + other.y)\n", []),
        ("import matplotlib.pyplot, numpy, pandas\nprint(3)\n", []),
        ("import os\nopen('.env', 'w').write('A=1')\nopen('.gitignore', 'w').close()\nprint(3)\n",
         [".env", ".gitignore"]),
        ("import os\nos.makedirs('__pycache__')\nopen('__pycache__/mine.pyc', 'w').close()\nprint(3)\n",
         ["__pycache__/mine.pyc"]),
        ("import pathlib\npathlib.Path.home().joinpath('h').write_text('x')\nprint(3)\n", []),
    ],
)  # fmt: skip
def test_D10_caches_are_no_outputs_and_dotfiles_are(service: Service, code: str, files: list[str]) -> None:
    session = service.upload("mod.py", b"x = 1\n")
    service.upload("other.py", b"from mod import x\ny = x + 1\n", session)
    service.run("py", f"import sys\nsys.path.insert(0, '.')\n{code}", session).expect("3\n", files)


def test_D10_other_languages_leave_no_cache(service: Service) -> None:
    for lang, code in (
        ("go", 'package main\nimport ("net/http"; "fmt")\nfunc main() { fmt.Println(http.StatusOK) }\n'),
        ("r", "library(stats)\ncat(200)\n"),
        ("js", "console.log(require('http').STATUS_CODES[200])"),
        (
            "java",
            "class A { static int x = 200; }\n"
            "class M { public static void main(String[] a) { System.out.println(A.x); } }",
        ),
        ("f90", "module m\n integer :: x = 200\nend module\nprogram p\n use m\n print *, x\nend program\n"),
    ):
        ran = service.run(lang, code).expect_end(0)
        assert ran.files == [], ran
        service.run("bash", "ls -A", ran.session).expect("")


def test_D11_twenty_runs_at_once_in_one_session_lose_nothing(service: Service) -> None:
    session = service.run("bash", "true").session
    runs = at_once(
        [partial(service.run, "bash", f"echo {i} > f{i}; sleep 0.1; echo $(cat n) {i} > n", session) for i in range(20)]
    )
    assert [(ran.code, ran.status) for ran in runs] == [(0, None)] * 20
    for index, ran in enumerate(runs):
        assert f"f{index}" in ran.names
        assert set(ran.names) <= {f"f{index}", "n"}
    assert service.names(session) == sorted([*(f"f{i}" for i in range(20)), "n"])
    order = service.read(session, "n").split()
    assert sorted(map(int, order)) == list(range(20))


def test_D11_uploads_and_deletions_beside_runs_lose_nothing(service: Service) -> None:
    session = service.upload("gone", b"")
    uploads = [partial(service.upload, f"u{i}", b"u", session) for i in range(6)]
    runs = [partial(service.run, "bash", f"sleep 0.05; echo > r{i}", session) for i in range(6)]
    delete = partial(service.ask, "DELETE", f"/v1/exec/files/{session}/gone")
    results = at_once([*uploads, *runs, delete])
    assert results[-1].status_code in (200, 204)
    assert service.names(session) == sorted([*(f"u{i}" for i in range(6)), *(f"r{i}" for i in range(6))])


def _objects(service: Service, content: bytes) -> list[Path]:
    """The files of the data folder that hold these bytes."""
    kept = (path for path in service.data.rglob("*") if path.is_file() and path.suffix not in (".db", ".key"))
    return [path for path in kept if content in path.read_bytes()]


@pytest.mark.parametrize("damage", ["bytes", "cut", "gone", "longer"])
@pytest.mark.parametrize("size", [60, 2 * MIB])
def test_D13_a_read_that_fails_on_restore_runs_and_commits_nothing(small: Service, damage: str, size: int) -> None:
    """A small file lies in a pack, one above 1 MiB has an object of its own."""
    marker = f"{damage}-{size}-{time.time_ns()}".encode()
    session = small.upload("f", marker.ljust(size, b"."))
    small.run("bash", "echo second > g; rm -f none", session).expect("", ["g"])
    before = small.rows(session)
    (path,) = [path for path in _objects(small, marker) if "sqlite" not in path.name]
    whole = path.read_bytes()
    _break(path, whole, damage, marker)
    small.kill_executor()
    body = {"lang": "bash", "code": "echo ran; rm -f f g; echo new > new", "session_id": session}
    if damage == "longer":
        # Bytes behind those of the file are nobody's: the file itself is whole.
        small.run("bash", "head -c 5 f", session).expect(marker[:5].decode())
        return
    for _ in range(2):
        answer = small.post(body)
        assert answer.status_code >= 500, answer.text
        assert "ran" not in answer.text
        assert str(small.folder) not in answer.text
        assert small.rows(session) == before
    _write(path, whole)
    small.run("bash", "ls; cat g; wc -c < f", session).expect(f"f\ng\nsecond\n{size}\n")
    assert small.read(session, "f").startswith(marker)


def _break(path: Path, whole: bytes, damage: str, marker: bytes) -> None:
    if damage == "gone":
        path.unlink()
    elif damage == "bytes":
        _write(path, whole.replace(marker, marker[:-1] + b"?"))
    else:
        _write(path, whole[:-1] if damage == "cut" else whole + b"more")


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def test_D13_a_download_of_a_damaged_file_is_not_taken_for_whole(small: Service) -> None:
    marker = f"download-{time.time_ns()}".encode()
    session = small.upload("f", marker)
    (path,) = [path for path in _objects(small, marker) if "sqlite" not in path.name]
    _write(path, path.read_bytes().replace(marker, marker[:-1] + b"?"))
    with contextlib.suppress(httpx.TransportError):  # the connection may break off: the client knows
        assert small.download(session, "f").status_code >= 500


def test_D14_what_is_saved_is_restored(small: Service) -> None:
    """Also into a new folder, after the one that was held is gone."""
    code = (
        "echo data > a; ln a b; mkfifo p; ln -s $PWD/a abs; ln -s a rel; ln -s nowhere dangling; ln -s . self\n"
        "mkdir -p d/e; chmod 700 d; chmod 750 a; python3 - <<'E'\n"
        "import os, socket\nos.mkfifo('d/q', 0o600)\ns = socket.socket(socket.AF_UNIX); s.bind('sock')\nE\n"
    )
    ran = small.run("bash", code).expect_end(0)
    assert ran.names == ["a", "b"]
    show = (
        "cat abs rel b; readlink abs dangling self; [ -p p ] && [ -p d/q ] && echo pipes\n"
        "stat -c '%a %n' a d d/q; ls self/d; echo more >> b; cat a"
    )
    expected = "data\ndata\ndata\n/mnt/data/a\nnowhere\n.\npipes\n750 a\n700 d\n600 d/q\ne\nq\ndata\n"
    for again in range(2):
        if again:
            small.kill_executor()
        ran = small.run("bash", show, ran.session).expect_end(0)
        assert ran.stderr == ""
        assert ran.stdout == (
            expected if not again else expected.replace("data\ndata\ndata\n", "data\ndata\ndata\nmore\n")
        )
    assert small.names(ran.session) == ["a", "b"]


def test_D14_a_virtual_environment_survives(service: Service) -> None:
    made = service.run("bash", "python3 -m venv --without-pip v && echo made").expect_end(0)
    assert made.stdout == "made\n", made
    assert "v/pyvenv.cfg" in made.names
    service.run(
        "bash", "v/bin/python -c 'import sys; print(sys.prefix)'; . v/bin/activate; which python", made.session
    ).expect("/mnt/data/v\n/mnt/data/v/bin/python\n")


READ_ONLY_ATTACKS = {
    "write": "chmod +w f; echo x > f",
    "append": "chmod 666 f; echo x >> f",
    "replace": "rm -f f; echo x > f",
    "rename over": "echo x > g; mv -f g f",
    "remove": "rm -f f",
    "move away": "mv f h",
    "link": "rm -f f; ln -s /etc/passwd f",
    "folder": "rm -f f; mkdir f; echo x > f/x",
    "mmap": "chmod +w f; python3 -c \"import mmap\nF=open('f','r+b'); m=mmap.mmap(F.fileno(),0); m[0]=33; m.close()\"",
}


@pytest.mark.parametrize("how", READ_ONLY_ATTACKS)
def test_D20_a_read_only_upload_stays_as_it_was(service: Service, how: str) -> None:
    session = service.upload("f", b"original", read_only=True)
    (row,) = service.rows(session)
    ran = service.run("bash", f"stat -c %a f; {READ_ONLY_ATTACKS[how]}; echo done > other", session)
    assert (ran.code, ran.stdout) == (0, "444\n"), ran
    echoed = {file["name"]: file for file in ran.files}
    assert echoed["f"]["inherited"] is True
    assert echoed["f"]["id"] == row["id"]
    assert "inherited" not in echoed["other"]
    assert "f" not in ran.deleted
    assert 'workroom: "f" is read-only: the change was not kept\n' in ran.stderr
    assert service.read(session, "f") == b"original"
    service.run("bash", "stat -c %a f; cat f", session).expect("444\noriginal")


def test_D20_reading_a_read_only_file_changes_nothing(service: Service) -> None:
    session = service.upload("in/f", b"original", read_only=True)
    service.run("bash", "cat in/f; cp in/f copy; (echo x > in/f) 2>/dev/null || echo denied", session).expect(
        "originaldenied\n", ["copy"]
    )


def test_D22_a_large_output_is_delivered_whole(service: Service) -> None:
    code = 'print("ok")\nopen("big.bin", "wb").write(bytes(30 * 2**20) + b"end")\n'
    ran = service.run("py", code).expect("ok\n", ["big.bin"])
    assert ran.files[0]["size"] == 30 * MIB + 3
    content = service.read(ran.session, "big.bin")
    assert (len(content), content[-3:]) == (30 * MIB + 3, b"end")
    service.run("bash", "tail -c 3 big.bin; rm big.bin", ran.session)
    assert service.names(ran.session) == []


def test_D22_what_is_too_large_is_named_with_the_limit(small: Service) -> None:
    """8 MiB a file here. Sparse ones count by their length; the others of the run are kept."""
    ran = small.run("bash", "echo ok; echo small > s; truncate -s 9M big.bin; echo $?")
    assert (ran.stdout, ran.code) == ("ok\n153\n", 0), ran
    assert [(row["name"], row["size"]) for row in ran.files] == [("big.bin", 0), ("s", 6)]
    code = "open('s', 'w').write('small')\nprint('ok', flush=True)\nopen('big.bin', 'wb').write(bytes(9 * 2**20))\n"
    ran = small.run("py", code)
    assert (ran.stdout, ran.names[-1]) == ("ok\n", "s"), ran
    assert ran.code != 0
    assert "File too large" in ran.stderr or ran.last_line() == "killed: a file reached the limit of 8388608 bytes", ran
    assert all(row["size"] <= 8 * MIB for row in ran.files)
    fine = small.run("bash", "truncate -s 8M big.bin; echo ok").expect("ok\n", ["big.bin"])
    assert fine.files[0]["size"] == 8 * MIB


def test_D22_many_outputs_at_once(service: Service) -> None:
    code = "import os\nfor i in range(40):\n    open(f'f{i:02}', 'wb').write(os.urandom(300_000))\nprint('ok')\n"
    ran: Ran = service.run("py", code).expect("ok\n", [f"f{i:02}" for i in range(40)])
    assert {len(service.read(ran.session, row["id"])) for row in ran.files} == {300_000}
    check = "import os\nprint(len(os.listdir()), {os.path.getsize(f) for f in os.listdir()})\n"
    service.run("py", check, ran.session).expect("40 {300000}\n")
