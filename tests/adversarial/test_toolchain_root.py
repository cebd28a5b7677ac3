"""The toolchain root as it lies on the disk: whole, harmless, and of this machine nothing.

The root is what ``toolchains/build --print`` names; when it is not there these tests fail: thirteen languages are
not optional. Programs are run by bubblewrap from an unprivileged uid with the root read-only, without the jail.
"""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_image.languages import BASE_ENV, LANGUAGES, compile_argv, run_argv

TOOLCHAINS = Path(__file__).resolve().parents[2] / "sandbox_image" / "toolchains"
UID = 61777


def _root() -> Path:
    printed = subprocess.run([TOOLCHAINS / "build", "--print"], capture_output=True, text=True, timeout=20, check=True)
    return Path(printed.stdout.splitlines()[-1])


@pytest.fixture(scope="module", name="root")
def _the_root() -> Path:
    root = _root()
    assert root.is_dir(), f"no toolchain root; make it with {TOOLCHAINS / 'build'}"
    return root


@pytest.fixture(name="place")
def _place() -> Iterator[Path]:
    # Not pytest's own folder: the unprivileged uid must be able to pass through every folder above.
    place = Path(tempfile.mkdtemp(prefix="workroom-root-test-"))
    place.chmod(0o755)
    (place / "workspace").mkdir()
    (place / "program").mkdir(mode=0o755)
    os.chown(place / "workspace", UID, UID)
    yield place
    shutil.rmtree(place)


def _jailed(root: Path, place: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    workspace, program = place / "workspace", place / "program"
    command = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
    command += ["bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session"]
    command += ["--ro-bind", str(root), "/", "--dev", "/dev", "--proc", "/proc", "--size", str(512 << 20)]
    command += ["--tmpfs", "/tmp", "--dir", "/tmp/home", "--dir", "/tmp/build"]
    command += ["--bind", str(workspace), "/mnt/data", "--bind", str(workspace), "/workspace"]
    command += ["--ro-bind", str(program), "/program", "--chdir", "/mnt/data", "--clearenv"]
    for name, value in BASE_ENV.items():
        command += ["--setenv", name, value]
    return subprocess.run(
        [*command, "--", *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def _run(root: Path, place: Path, lang: str, code: str, *args: str) -> subprocess.CompletedProcess[str]:
    language = LANGUAGES[lang]
    source = f"/program/{language.source}"
    (place / "program" / language.source).write_text(code, encoding="utf-8")
    env = [f"{name}={value}" for name, value in language.env]
    compiled = compile_argv(language, source, "/tmp/build", "/mnt/data")
    argv = run_argv(language, source, "/tmp/build", "/mnt/data", args)
    # `"$@"` holds both commands, the first `$0` words of it being the compile command.
    script = 'n=$0; if [ "$n" -gt 0 ]; then "${@:1:n}" >&2 || exit; fi; shift "$n"; exec "$@"'
    return _jailed(root, place, "env", *env, "bash", "-c", script, str(len(compiled)), *compiled, *argv)


def test_every_language_is_present_and_says_its_version(root: Path) -> None:
    entries = json.loads((root / "usr/lib/workroom/toolchains.json").read_text(encoding="utf-8"))
    assert list(entries) == ["py", "js", "ts", "bash", "r", "php", "go", "rs", "c", "cpp", "java", "d", "f90"]
    assert list(entries) == list(LANGUAGES)
    for name, entry in entries.items():
        assert entry["present"] is True, (name, entry["reason"])
        assert any(letter.isdigit() for letter in entry["version"]), (name, entry["version"])
        assert tuple(entry["packages"]) == LANGUAGES[name].packages


def test_the_recorded_version_is_what_the_tool_prints(root: Path, place: Path) -> None:
    entries = json.loads((root / "usr/lib/workroom/toolchains.json").read_text(encoding="utf-8"))
    for name, language in LANGUAGES.items():
        printed = _jailed(root, place, *language.version)
        assert printed.returncode == 0, (name, printed.stderr)
        first = next(line.strip() for line in (printed.stdout + printed.stderr).splitlines() if line.strip())
        assert entries[name]["version"] == first


def test_every_command_of_the_table_has_its_program_in_the_root(root: Path) -> None:
    for name, language in LANGUAGES.items():
        for argv in (language.compile, language.run, language.version):
            if not argv or argv[0].startswith("{build}"):
                continue
            # Links are Debian's alternatives: absolute inside the root, so only their own presence is asked.
            folders = [""] if argv[0].startswith("/") else BASE_ENV["PATH"].split(":")
            found = [path for folder in folders if os.path.lexists(path := root / f"{folder}/{argv[0]}".lstrip("/"))]
            assert found, (name, argv[0])
            assert found[0].is_symlink() or os.access(found[0], os.X_OK), (name, argv[0])


def test_no_file_gives_another_identity_and_every_file_can_be_read(root: Path) -> None:
    seen = 0
    for folder, names, files in os.walk(root):
        for name in names + files:
            mode = os.lstat(os.path.join(folder, name)).st_mode
            seen += 1
            if stat.S_ISLNK(mode):
                continue
            path = os.path.join(folder, name)
            if stat.S_ISREG(mode):
                assert not mode & (stat.S_ISUID | stat.S_ISGID), path
                assert mode & stat.S_IROTH, path
                assert not mode & stat.S_IWOTH, path
            if stat.S_ISDIR(mode) and os.path.relpath(path, root) not in {"tmp", "var/tmp", "proc", "run/lock"}:
                assert mode & 0o005 == 0o005, path
                assert not mode & stat.S_IWOTH, path
    assert seen > 10_000


def test_nothing_of_the_machine_is_left(root: Path) -> None:
    for name in (
        "etc/resolv.conf",
        "etc/shadow",
        "etc/gshadow",
        "etc/apt/auth.conf",
        "etc/apt/auth.conf.d",
        ".workroom-build",
        "root/.npmrc",
        "root/.npm",
        "root/.cache",
        "root/.config",
        "root/go",
    ):
        assert not os.path.lexists(root / name), name
    assert (root / "etc/hostname").read_text() != Path("/etc/hostname").read_text()
    assert list((root / "var/lib/apt").glob("lists/*")) == []
    assert list((root / "var/log").iterdir()) == []
    assert (root / "etc/apt/sources.list").read_text() == ""
    assert sorted(path.name for path in (root / "etc/apt/apt.conf.d").iterdir() if "workroom" in path.name) == []
    # Certificates that the machine trusts beside Debian's own are known by their bodies.
    local = Path("/usr/local/share/ca-certificates")
    for certificate in local.rglob("*.crt") if local.is_dir() else ():
        body = "".join(certificate.read_text(encoding="ascii", errors="replace").split("-----")[2].split())
        for bundle in (root / "etc/ssl").rglob("*"):
            if bundle.is_file() and not bundle.is_symlink():
                held = bundle.read_text(encoding="latin-1").replace("\n", "")
                assert body not in held, (certificate.name, bundle.relative_to(root))


def test_the_folders_that_the_jail_mounts_are_there(root: Path) -> None:
    for name in ("mnt/data", "workspace", "program", "tmp", "proc", "dev"):
        assert (root / name).is_dir(), name
    for name in ("mnt/data", "workspace", "program", "tmp"):
        assert list((root / name).iterdir()) == [], name


def test_the_sandboxed_uid_has_a_name(root: Path, place: Path) -> None:
    printed = _jailed(root, place, "python3", "-c", "import pwd, os; print(pwd.getpwuid(os.getuid()))")
    assert "pw_name='user'" in printed.stdout
    assert "pw_dir='/tmp/home'" in printed.stdout


def test_the_prepared_font_list_is_read(root: Path, place: Path) -> None:
    code = (
        "import logging, sys\n"
        "logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)\n"
        "import matplotlib.font_manager, os\n"
        "print('made:', os.listdir(os.environ['MPLCONFIGDIR']))\n"
        "print('found:', os.path.exists(matplotlib.font_manager.findfont('DejaVu Sans')))\n"
    )
    ran = _run(root, place, "py", code)
    assert "Using fontManager instance from /usr/lib/workroom/python/fontlist" in ran.stdout
    assert "made: []" in ran.stdout
    assert "found: True" in ran.stdout


def test_figures_that_are_shown_become_pictures_and_overwrite_nothing(root: Path, place: Path) -> None:
    workspace = place / "workspace"
    (workspace / "plot-2.png").write_text("mine")
    code = (
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.show()\n"
        "plt.figure(); plt.figure(); plt.show()\n"
        "plt.show()\n"
        "plt.plot([3]); plt.savefig('saved.png')\n"
    )
    ran = _run(root, place, "py", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (workspace / "plot-2.png").read_text() == "mine"
    made = sorted(path.name for path in workspace.iterdir())
    assert made == ["plot-1.png", "plot-2.png", "plot-3.png", "plot-4.png", "saved.png"]
    for name in ("plot-1.png", "plot-3.png", "plot-4.png", "saved.png"):
        assert (workspace / name).read_bytes().startswith(b"\x89PNG\r\n")


def test_a_workspace_full_of_traps_does_not_reach_our_own_start(root: Path, place: Path) -> None:
    workspace = place / "workspace"
    trap = "open('/mnt/data/TRAPPED', 'w').close()\n"
    for name in ("sitecustomize.py", "usercustomize.py", "site.py", "encodings.py", "workroom_plots.py", "os.py"):
        (workspace / name).write_text(trap)
    (workspace / ".Rprofile").write_text("file.create('/mnt/data/TRAPPED')\n")
    (workspace / ".Renviron").write_text("TRAPPED=1\n")
    (workspace / ".bashrc").write_text("touch /mnt/data/TRAPPED\n")
    (workspace / "php.ini").write_text("auto_prepend_file=/mnt/data/trap.php\n")
    (workspace / "trap.php").write_text("<?php touch('/mnt/data/TRAPPED');")
    (workspace / "package.json").write_text("{ not json")
    (workspace / "go.mod").write_text("not a module file")
    (workspace / "tsconfig.json").write_text("{ not json")
    (workspace / "ldc2.conf").write_text("{ not a configuration")
    (workspace / ".hotspotrc").write_text("-XX:+Trapped")
    (workspace / "stdio.h").write_text("#error trapped\n")
    programs = {
        "py": "print('ok')",
        "js": "console.log('ok')",
        "ts": "const word: string = 'ok'; console.log(word)",
        "bash": "echo ok",
        "r": "cat('ok\\n')",
        "php": '<?php echo "ok\\n";',
        "go": 'package main\nimport "fmt"\nfunc main() { fmt.Println("ok") }\n',
        "c": '#include <stdio.h>\nint main(void) { puts("ok"); return 0; }\n',
        "d": 'import std.stdio;\nvoid main() { writeln("ok"); }\n',
        "java": 'class A { public static void main(String[] a) { System.out.println("ok"); } }\n',
    }
    for lang, code in programs.items():
        ran = _run(root, place, lang, code)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ok\n", ""), lang
    assert not (workspace / "TRAPPED").exists()


def test_a_hello_leaves_nothing_in_the_workspace_and_takes_its_arguments(root: Path, place: Path) -> None:
    programs = {
        "py": "import sys; print('|'.join(sys.argv[1:]))",
        "js": "console.log(process.argv.slice(2).join('|'))",
        "ts": "enum E { Bar = '|' }; const a: string[] = process.argv.slice(2);"
        "console.log(await Promise.resolve(a.join(E.Bar)))",
        "bash": 'IFS="|"; echo "$*"',
        "r": "cat(paste(commandArgs(TRUE), collapse='|'), '\\n', sep='')",
        "php": "<?php echo implode('|', array_slice($argv, 1)), \"\\n\";",
        "go": 'package main\nimport ("fmt"; "os"; "strings")\n'
        'func main() { fmt.Println(strings.Join(os.Args[1:], "|")) }\n',
        "rs": 'fn main() { let a: Vec<String> = std::env::args().skip(1).collect(); println!("{}", a.join("|")); }\n',
        "c": "#include <stdio.h>\nint main(int n, char **v) { for (int i = 1; i < n; i++) "
        'printf("%s%s", i > 1 ? "|" : "", v[i]); puts(""); }\n',
        "cpp": "#include <iostream>\nint main(int n, char **v) { for (int i = 1; i < n; i++) "
        'std::cout << (i > 1 ? "|" : "") << v[i]; std::cout << std::endl; }\n',
        "java": "class Aid {}\npublic class Anything { public static void main(String[] a) "
        '{ System.out.println(String.join("|", a)); } }\n',
        "d": 'import std.stdio, std.array;\nvoid main(string[] a) { writeln(a[1 .. $].join("|")); }\n',
        "f90": "module m\ninteger :: one = 1\nend module\nprogram p\nuse m\ncharacter(99) :: a\ninteger :: i\n"
        "do i = one, command_argument_count()\ncall get_command_argument(i, a)\n"
        "if (i > 1) write(*, '(a)', advance='no') '|'\nwrite(*, '(a)', advance='no') trim(a)\nend do\n"
        "print '(a)', ''\nend program\n",
    }
    assert list(programs) == list(LANGUAGES)
    args = ("--version", "-e", "", "a b", "--", "é@x", "--help")
    for lang, code in programs.items():
        ran = _run(root, place, lang, code, *args)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "|".join(args) + "\n", ""), lang
        assert list((place / "workspace").iterdir()) == [], lang


def test_r_draws_into_pictures_only_when_it_draws(root: Path, place: Path) -> None:
    workspace = place / "workspace"
    (workspace / "plot-1.png").write_text("mine")
    quiet = _run(root, place, "r", "settings <- par(mfrow = c(1, 2)); x <- hist(c(1, 2), plot = FALSE); print(1)")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "[1] 1\n", "")
    assert [path.name for path in workspace.iterdir()] == ["plot-1.png"]
    drawn = _run(root, place, "r", "x <- hist(c(1, 2, 2)); plot(1:3)")
    assert (drawn.returncode, drawn.stdout, drawn.stderr) == (0, "", "")
    assert sorted(path.name for path in workspace.iterdir()) == ["plot-1.png", "plot-2.png", "plot-3.png"]
    assert (workspace / "plot-1.png").read_text() == "mine"
    assert (workspace / "plot-2.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_r_has_its_usual_search_path_and_default_packages(root: Path, place: Path) -> None:
    ran = _run(root, place, "r", "cat(search(), '|', getOption('defaultPackages'), '|', utils::osVersion)")
    usual = ".GlobalEnv package:stats package:graphics package:grDevices package:utils package:datasets"
    usual += " package:methods Autoloads package:base"
    assert ran.stdout == f"{usual} | datasets utils grDevices graphics stats methods | Debian GNU/Linux 13 (trixie)"


def test_a_program_imports_what_lies_in_the_workspace(root: Path, place: Path) -> None:
    workspace = place / "workspace"
    (workspace / "aid.py").write_text("WORD = 'workspace'\n")
    (workspace / "aid.js").write_text("exports.WORD = 'workspace';\n")
    (workspace / "more.ts").write_text("export enum Word { A = 'workspace' }\nexport interface Shape { x: number }\n")
    (workspace / "aid.h").write_text('#define WORD "workspace"\n')
    (workspace / "Aid.java").write_text('public class Aid { static String WORD = "workspace"; }\n')
    (workspace / "aid.d").write_text('module aid;\nstring word() { return "workspace"; }\n')
    (workspace / "go.mod").write_text("module example.test/m\n\ngo 1.24\n")
    (workspace / "aid").mkdir()
    (workspace / "aid" / "aid.go").write_text('package aid\n\nconst Word = "workspace"\n')
    programs = {
        "py": "import aid; print(aid.WORD)",
        "js": "const { WORD } = require('./aid'); import('./aid.js').then((aid) => console.log(WORD && aid.WORD));",
        "ts": "import { Word, Shape } from './more'; const shape: Shape = { x: 1 };\n"
        "const { WORD } = require('./aid'); console.log(shape.x && WORD && Word.A);",
        "c": '#include <stdio.h>\n#include "aid.h"\nint main(void) { puts(WORD); }\n',
        "cpp": '#include <iostream>\n#include "aid.h"\nint main() { std::cout << WORD << "\\n"; }\n',
        "java": "class A { public static void main(String[] a) { System.out.println(Aid.WORD); } }\n",
        "d": "import std.stdio, aid;\nvoid main() { writeln(word()); }\n",
        "go": 'package main\n\nimport (\n"fmt"\n"example.test/m/aid"\n)\n\nfunc main() { fmt.Println(aid.Word) }\n',
    }
    before = sorted(path.name for path in workspace.rglob("*"))
    for lang, code in programs.items():
        ran = _run(root, place, lang, code)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "workspace\n", ""), lang
        assert sorted(path.name for path in workspace.rglob("*")) == before, lang


def test_java_runs_the_first_class_with_a_main_and_ends_as_java_does(root: Path, place: Path) -> None:
    code = (
        "package some.where;\n"
        "record Pair(int a, int b) {}\n"
        "interface Unused {}\n"
        "class Second { public static void main(String[] args) {\n"
        '  System.out.println(new Pair(1, 2) + " é");\n'
        '  throw new IllegalStateException("out");\n'
        "} }\n"
        'public class Third { public static void main(String[] args) { System.out.println("third"); } }\n'
    )
    ran = _run(root, place, "java", code)
    assert (ran.returncode, ran.stdout) == (1, "Pair[a=1, b=2] é\n")
    assert ran.stderr == (
        'Exception in thread "main" java.lang.IllegalStateException: out\n\tat some.where.Second.main(Main.java:6)\n'
    )
    assert _run(root, place, "java", 'void main() { System.out.println("no class"); }').stdout == "no class\n"
    assert _run(root, place, "java", "class A { static void main(String[] a) { System.exit(7); } }").returncode == 7
    broken = _run(root, place, "java", "public class B { int x = missing; }\n")
    assert broken.returncode == 1
    assert "Main.java:1: error: cannot find symbol" in broken.stderr


def test_a_line_of_a_typescript_error_is_the_source_s(root: Path, place: Path) -> None:
    code = "interface Gone {\n  a: number\n}\nenum E { A }\nthrow new Error(E[0]);\n"
    ran = _run(root, place, "ts", code)
    assert ran.returncode == 1
    assert "/program/main.ts:5" in ran.stderr


def test_go_builds_against_any_package_of_its_library(root: Path, place: Path) -> None:
    code = (
        "package main\n\n"
        'import (\n"crypto/tls"\n"database/sql"\n"encoding/json"\n"fmt"\n"html/template"\n"log/slog"\n'
        '"math/rand/v2"\n"net/http"\n"regexp"\n)\n\n'
        'var _ = []any{tls.Config{}, sql.NullString{}, template.HTML(""), slog.Info, rand.IntN, http.Get, '
        "regexp.MustCompile}\n\n"
        "func main() { b, _ := json.Marshal([]int{1}); fmt.Println(string(b)) }\n"
    )
    ran = _run(root, place, "go", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[1]\n", "")


def test_every_python_library_is_imported_without_a_word(root: Path, place: Path) -> None:
    code = (
        "import numpy, pandas, matplotlib.pyplot, scipy.stats, sklearn.linear_model, PIL.Image, openpyxl, docx, pptx\n"
        "import reportlab.pdfgen.canvas, requests, sympy, seaborn, pypdf\n"
        "pptx.Presentation().save('slides.pptx'); docx.Document().save('text.docx')\n"
        "pandas.DataFrame([1]).to_excel('table.xlsx')\n"
    )
    ran = _run(root, place, "py", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert sorted(path.name for path in (place / "workspace").iterdir()) == ["slides.pptx", "table.xlsx", "text.docx"]
