"""The thirteen languages as one table: source name, compile and run command, environment (DESIGN §7).

Pure data and pure functions; the standard library only. The commands are those of the Debian 13 root that
``toolchains/build`` makes, seen from inside the jail. They hold three rules:

- the caller's arguments reach the program only: they come last, after whatever ends the tool's own options;
- nothing is written to the workspace: what is compiled goes to ``{build}``;
- no tool reads its own settings from the workspace (a ``php.ini``, ``.Rprofile`` or ``sitecustomize.py`` there is
  the program's business alone).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

_LIB = "/usr/lib/workroom"


@dataclass(frozen=True)
class Language:
    """One language.

    ``compile`` (empty: not compiled) and ``run`` are argv with the placeholders ``{src}`` (the program's file),
    ``{build}`` (a scratch folder, absolute) and ``{workspace}``. ``env`` is added to ``BASE_ENV`` for both.
    ``version`` prints the tool's version. ``packages`` are the Debian packages that a missing toolchain lacks.
    """

    name: str
    title: str
    source: str
    compile: tuple[str, ...]
    run: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    version: tuple[str, ...]
    packages: tuple[str, ...]


BASE_ENV: Mapping[str, str] = MappingProxyType(
    {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp/home",
        "TMPDIR": "/tmp",
        "USER": "user",
        "LOGNAME": "user",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        # Python may be started by a program of any language.
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "PYTHONNOUSERSITE": "1",
        "MPLBACKEND": "module://workroom_plots",
        "MPLCONFIGDIR": "/tmp/home/.config/matplotlib",
        # A program of any language may call go; it never reaches a network.
        "GOCACHE": "/tmp/home/.cache/go-build",
        "GOPATH": "/tmp/home/go",
        "GOTMPDIR": "/tmp",
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
        "GOSUMDB": "off",
        "GOTELEMETRY": "off",
        "GO111MODULE": "auto",
        "GOFLAGS": "-mod=mod",
    }
)

_LINK = ("-fuse-ld=mold", "-fno-use-linker-plugin")
_NODE = (
    "node",
    "--max-old-space-size=768",
    "--disable-warning=ExperimentalWarning",
    "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON",
)
_JAVA = (
    # The working folder may hold a .hotspotrc.
    "-XX:Flags=/dev/null",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
    "-Xshare:auto",
    "-Dfile.encoding=UTF-8",
    "-Dstdout.encoding=UTF-8",
    "-Dstderr.encoding=UTF-8",
)
_R_ENV = (
    ("R_HOME", "/usr/lib/R"),
    ("R_SHARE_DIR", "/usr/share/R/share"),
    ("R_INCLUDE_DIR", "/usr/share/R/include"),
    ("R_DOC_DIR", "/usr/share/R/doc"),
    ("R_DEFAULT_PACKAGES", "NULL"),
    ("WORKROOM_R", "1"),
)

_TABLE = (
    Language(
        name="py",
        title="Python",
        source="main.py",
        compile=(),
        run=("python3", "-P", "-s", "-X", "workspace={workspace}", "{src}"),
        env=(),
        version=("python3", "--version"),
        packages=(
            "python3",
            "python3-numpy",
            "python3-pandas",
            "python3-matplotlib",
            "python3-scipy",
            "python3-sklearn",
            "python3-pil",
            "python3-openpyxl",
            "python3-docx",
            "python3-reportlab",
            "python3-requests",
            "python3-sympy",
            "python3-seaborn",
            "python3-pypdf",
        ),
    ),
    Language(
        name="js",
        title="JavaScript",
        source="main.js",
        compile=(),
        run=(*_NODE, f"{_LIB}/node/run.cjs", "{src}", "{src}", "{workspace}"),
        env=(),
        version=("node", "--version"),
        packages=("libatomic1",),
    ),
    Language(
        name="ts",
        title="TypeScript",
        source="main.ts",
        compile=(
            # Elsewhere than in the workspace, whose package.json the bundler would read.
            "env",
            "-C",
            "/",
            "esbuild",
            "{src}",
            "--outfile={build}/main.js",
            "--platform=node",
            "--target=node24",
            "--charset=utf8",
            # Like node, no tsconfig.json counts.
            "--tsconfig-raw={}",
            "--sourcemap=inline",
            "--log-level=warning",
            "--color=false",
        ),
        run=(
            *_NODE,
            "--experimental-transform-types",
            "--enable-source-maps",
            f"{_LIB}/node/run.cjs",
            "{build}/main.js",
            "{src}",
            "{workspace}",
        ),
        env=(),
        version=("esbuild", "--version"),
        packages=("esbuild",),
    ),
    Language(
        name="bash",
        title="Bash",
        source="main.sh",
        compile=(),
        run=("bash", "--", "{src}"),
        env=(),
        version=("bash", "--version"),
        packages=("bash",),
    ),
    Language(
        name="r",
        title="R",
        source="main.R",
        compile=(),
        run=(
            "/usr/lib/R/bin/exec/R",
            "--no-echo",
            "--no-restore",
            "--no-save",
            "--no-environ",
            "--no-init-file",
            "--file={src}",
            "--args",
        ),
        env=_R_ENV,
        version=("Rscript", "--version"),
        packages=("r-base-core", "r-recommended"),
    ),
    Language(
        name="php",
        title="PHP",
        source="main.php",
        compile=(),
        run=("php", "-f", "{src}", "--"),
        env=(),
        version=("php", "--version"),
        packages=("php-cli", "php-mbstring", "php-xml"),
    ),
    Language(
        name="go",
        title="Go",
        source="main.go",
        compile=(f"{_LIB}/go/gobuild", "{src}", "{build}/main", "{workspace}"),
        run=("{build}/main",),
        env=(),
        version=("go", "version"),
        packages=("golang-go",),
    ),
    Language(
        name="rs",
        title="Rust",
        source="main.rs",
        compile=(
            "rustc",
            "--edition=2021",
            "--crate-name=main",
            "--color=never",
            "-Copt-level=1",
            "-Coverflow-checks=on",
            "-Cstrip=debuginfo",
            "-Clink-arg=-fuse-ld=mold",
            "-o",
            "{build}/main",
            "{src}",
        ),
        run=("{build}/main",),
        env=(),
        version=("rustc", "--version"),
        packages=("rustc", "mold"),
    ),
    Language(
        name="c",
        title="C",
        source="main.c",
        compile=(
            "gcc",
            "-std=gnu17",
            "-O2",
            "-pipe",
            *_LINK,
            "-iquote",
            "{workspace}",
            "-o",
            "{build}/main",
            "{src}",
            "-lm",
            "-lpthread",
        ),
        run=("{build}/main",),
        env=(),
        version=("gcc", "--version"),
        packages=("gcc", "libc6-dev", "mold"),
    ),
    Language(
        name="cpp",
        title="C++",
        source="main.cpp",
        # The precompiled headers of the root fit exactly these options.
        compile=(
            "g++",
            "-std=gnu++20",
            "-O2",
            "-pipe",
            f"-I{_LIB}/cpp",
            *_LINK,
            "-iquote",
            "{workspace}",
            "-o",
            "{build}/main",
            "{src}",
            "-lm",
            "-lpthread",
        ),
        run=("{build}/main",),
        env=(),
        version=("g++", "--version"),
        packages=("g++", "mold"),
    ),
    Language(
        name="java",
        title="Java",
        source="Main.java",
        # The compiler runs in a machine of its own that stops at the quick compiler; the program's is a usual one,
        # whose heap leaves room for code, classes and threads below a memory limit of 1 GiB.
        compile=(
            "java",
            *_JAVA,
            f"-XX:SharedArchiveFile={_LIB}/java/compile.jsa",
            "-XX:TieredStopAtLevel=1",
            "-Xmn48m",
            "-Xmx512m",
            "-Xss8m",
            "-cp",
            f"{_LIB}/java/compile.jar",
            "workroom.Compile",
            "{src}",
            "{workspace}",
            "{build}",
        ),
        run=("java", *_JAVA, "-Xmx640m", "@{build}/launch"),
        env=(),
        version=("java", "--version"),
        packages=("openjdk-21-jdk-headless",),
    ),
    Language(
        name="d",
        title="D",
        source="main.d",
        compile=(
            "ldc2",
            # Named, because the compiler would look into the working folder first.
            "-conf=/etc/ldc2.conf",
            "-O1",
            "--linkonce-templates",
            "-i",
            "-I={workspace}",
            "-link-defaultlib-shared",
            "-linker=mold",
            "-od={build}",
            "-of={build}/main",
            "{src}",
        ),
        run=("{build}/main",),
        env=(),
        version=("ldc2", "--version"),
        packages=("ldc", "mold"),
    ),
    Language(
        name="f90",
        title="Fortran",
        source="main.f90",
        compile=(
            "gfortran",
            "-O2",
            "-pipe",
            *_LINK,
            "-J",
            "{build}",
            "-I",
            "{workspace}",
            "-o",
            "{build}/main",
            "{src}",
        ),
        run=("{build}/main",),
        env=(),
        version=("gfortran", "--version"),
        packages=("gfortran", "mold"),
    ),
)

LANGUAGES: Mapping[str, Language] = MappingProxyType({language.name: language for language in _TABLE})


def _filled(argv: Sequence[str], src: str, build: str, workspace: str) -> tuple[str, ...]:
    # One pass a word: a path that itself contains a placeholder's text is not filled again.
    values = {"{src}": src, "{build}": build, "{workspace}": workspace}
    words = []
    for word in argv:
        for name, value in values.items():
            if name in word:
                words.append(word.replace(name, value))
                break
        else:
            words.append(word)
    return tuple(words)


def compile_argv(lang: Language, src: str, build: str, workspace: str) -> tuple[str, ...]:
    """The command that compiles ``src`` into the folder ``build``; empty for a language that is not compiled."""
    return _filled(lang.compile, src, build, workspace)


def run_argv(lang: Language, src: str, build: str, workspace: str, args: Sequence[str]) -> tuple[str, ...]:
    """The command that runs the program; ``args`` come last, unchanged, and are the program's own."""
    return (*_filled(lang.run, src, build, workspace), *args)
