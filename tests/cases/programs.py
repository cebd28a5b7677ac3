"""One behaviour in thirteen languages, written by hand: what a person who knows the language would send."""

from __future__ import annotations

from typing import Final

HELLO: Final = {
    "py": 'print("hello")\n',
    "js": 'console.log("hello");\n',
    "ts": 'enum Word { Hello = "hello" }\nconst word: Word = Word.Hello;\nconsole.log(word as string);\n',
    "bash": "echo hello\n",
    "r": 'cat("hello\\n")\n',
    "php": '<?php\necho "hello\\n";\n',
    "go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n',
    "rs": 'fn main() { println!("hello"); }\n',
    "c": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n',
    "cpp": '#include <iostream>\nint main() { std::cout << "hello" << std::endl; }\n',
    "java": 'class Main { public static void main(String[] a) { System.out.println("hello"); } }\n',
    "d": 'import std.stdio;\nvoid main() { writeln("hello"); }\n',
    "f90": 'program hello\n  print "(A)", "hello"\nend program\n',
}
"""Print `hello` and end."""

ARGS: Final = {
    "py": 'import sys\nfor arg in sys.argv[1:]:\n    print(f"<{arg}>")\n',
    "js": "for (const arg of process.argv.slice(2)) console.log(`<${arg}>`);\n",
    "ts": "const args: string[] = process.argv.slice(2);\nfor (const arg of args) console.log(`<${arg}>`);\n",
    "bash": 'for arg in "$@"; do printf "<%s>\\n" "$arg"; done\n',
    "r": 'for (arg in commandArgs(trailingOnly = TRUE)) cat("<", arg, ">\\n", sep = "")\n',
    "php": '<?php\nforeach (array_slice($argv, 1) as $arg) echo "<$arg>\\n";\n',
    "go": (
        'package main\n\nimport (\n\t"fmt"\n\t"os"\n)\n\n'
        'func main() {\n\tfor _, arg := range os.Args[1:] {\n\t\tfmt.Printf("<%s>\\n", arg)\n\t}\n}\n'
    ),
    "rs": 'fn main() { for arg in std::env::args().skip(1) { println!("<{}>", arg); } }\n',
    "c": '#include <stdio.h>\nint main(int n, char **v) { for (int i = 1; i < n; i++) printf("<%s>\\n", v[i]); }\n',
    "cpp": (
        "#include <iostream>\nint main(int n, char **v) {\n"
        "  for (int i = 1; i < n; i++) std::cout << '<' << v[i] << \">\\n\";\n}\n"
    ),
    "java": (
        "public class Args {\n  public static void main(String[] args) {\n"
        '    for (String arg : args) System.out.println("<" + arg + ">");\n  }\n}\n'
    ),
    "d": 'import std.stdio;\nvoid main(string[] args) { foreach (arg; args[1 .. $]) writefln("<%s>", arg); }\n',
    "f90": (
        "program args\n  character(len=:), allocatable :: arg\n  integer :: i, n\n"
        "  do i = 1, command_argument_count()\n    call get_command_argument(i, length=n)\n"
        "    allocate(character(len=n) :: arg)\n    if (n > 0) call get_command_argument(i, value=arg)\n"
        '    print "(3A)", "<", arg, ">"\n    deallocate(arg)\n  end do\nend program\n'
    ),
}
"""Print each argument between < and >, a line each."""

STDIN: Final = {
    "py": "import sys\nprint(len(sys.stdin.read()))\n",
    "js": 'console.log(require("fs").readFileSync(0).length);\n',
    "ts": 'import { readFileSync } from "node:fs";\nconst all: Buffer = readFileSync(0);\nconsole.log(all.length);\n',
    "bash": "cat | wc -c\n",
    "r": 'input <- file("stdin")\ncat(length(readLines(input)), "\\n", sep = "")\nclose(input)\n',
    "php": '<?php\necho strlen(stream_get_contents(STDIN)), "\\n";\n',
    "go": (
        'package main\n\nimport (\n\t"fmt"\n\t"io"\n\t"os"\n)\n\n'
        "func main() {\n\tall, _ := io.ReadAll(os.Stdin)\n\tfmt.Println(len(all))\n}\n"
    ),
    "rs": (
        "use std::io::Read;\nfn main() {\n    let mut all = String::new();\n"
        '    std::io::stdin().read_to_string(&mut all).unwrap();\n    println!("{}", all.len());\n}\n'
    ),
    "c": '#include <stdio.h>\nint main(void) { int n = 0; while (getchar() != EOF) n++; printf("%d\\n", n); }\n',
    "cpp": (
        "#include <iostream>\n#include <iterator>\n#include <string>\nint main() {\n"
        "  std::string all((std::istreambuf_iterator<char>(std::cin)), {});\n"
        '  std::cout << all.size() << "\\n";\n}\n'
    ),
    "java": (
        "class Main {\n  public static void main(String[] args) throws Exception {\n"
        "    System.out.println(System.in.readAllBytes().length);\n  }\n}\n"
    ),
    "d": (
        "import std.stdio;\nvoid main() {\n  size_t n;\n"
        "  foreach (chunk; stdin.byChunk(4096)) n += chunk.length;\n  writeln(n);\n}\n"
    ),
    "f90": (
        "program input\n  integer :: n, status\n  character(len=100) :: line\n  n = 0\n  do\n"
        '    read(*, "(A)", iostat=status) line\n    if (status /= 0) exit\n    n = n + 1\n  end do\n'
        '  print "(I0)", n\nend program\n'
    ),
}
"""Read standard input to its end and print how much there was."""

ENDS: Final = {
    "py": 'import sys\nprint("out")\nprint("err", file=sys.stderr)\nsys.exit(3)\n',
    "js": 'console.log("out");\nconsole.error("err");\nprocess.exitCode = 3;\n',
    "ts": 'console.log("out");\nconsole.error("err");\nprocess.exit(3 as number);\n',
    "bash": "echo out\necho err >&2\nexit 3\n",
    "r": 'cat("out\\n")\ncat("err\\n", file = stderr())\nquit(status = 3)\n',
    "php": '<?php\necho "out\\n";\nfwrite(STDERR, "err\\n");\nexit(3);\n',
    "go": (
        'package main\n\nimport (\n\t"fmt"\n\t"os"\n)\n\n'
        'func main() {\n\tfmt.Println("out")\n\tfmt.Fprintln(os.Stderr, "err")\n\tos.Exit(3)\n}\n'
    ),
    "rs": 'fn main() {\n    println!("out");\n    eprintln!("err");\n    std::process::exit(3);\n}\n',
    "c": '#include <stdio.h>\nint main(void) { puts("out"); fputs("err\\n", stderr); return 3; }\n',
    "cpp": '#include <iostream>\nint main() { std::cout << "out\\n"; std::cerr << "err\\n"; return 3; }\n',
    "java": (
        "class Main {\n  public static void main(String[] args) {\n"
        '    System.out.println("out");\n    System.err.println("err");\n    System.exit(3);\n  }\n}\n'
    ),
    "d": 'import std.stdio;\nint main() { writeln("out"); stderr.writeln("err"); return 3; }\n',
    "f90": (
        "program ends\n  use iso_fortran_env\n"
        '  write(output_unit, "(A)") "out"\n  write(error_unit, "(A)") "err"\n  call exit(3)\nend program\n'
    ),
}
"""Print `out` to standard output and `err` to standard error, and end with 3."""

BROKEN: Final = {
    "py": 'print("never")\ndef broken(:\n',
    "js": 'console.log("never");\nfunction broken( {\n',
    "ts": 'console.log("never");\nfunction broken( {\n',
    "bash": "if true; then\necho 'unclosed\n",
    "r": 'broken <- function( {\ncat("never")\n',
    "php": "<?php\necho 'never';\nfunction broken( {\n",
    "go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println(broken) }\n',
    "rs": 'fn main() { let n: i32 = "broken"; println!("{}", n); }\n',
    "c": '#include <stdio.h>\nint main(void) { puts("never"); return broken; }\n',
    "cpp": '#include <iostream>\nint main() { std::cout << "never"; return broken; }\n',
    "java": 'class Main { public static void main(String[] args) { System.out.println("never"); int broken } }\n',
    "d": 'import std.stdio;\nvoid main() { writeln("never"); int broken }\n',
    "f90": 'program broken\n  implicit none\n  print *, "never"\n  broken_ = 1\nend program\n',
}
"""No valid program: the tool refuses it, and nothing of it runs."""

REFUSED: Final = {
    "py": "SyntaxError",
    "js": "SyntaxError",
    "ts": "main.ts:3:0",
    "bash": "unexpected EOF",
    "r": "broken <- function( {",
    "php": "Parse error",
    "go": "undefined: broken",
    "rs": "mismatched types",
    "c": "‘broken’ undeclared",
    "cpp": "‘broken’ was not declared",
    "java": "Main.java:1",
    "d": "main.d(2)",
    "f90": "Symbol ‘broken_’",
}
"""What the tool says of BROKEN on standard error."""

FAILS: Final = {
    "py": 'print("before")\n1 / 0\n',
    "js": 'console.log("before");\nnull.broken;\n',
    "ts": 'console.log("before");\nthrow new Error("broken");\n',
    "bash": "echo before\nno-such-command\n",
    "r": 'cat("before\\n")\nstop("broken")\n',
    "php": '<?php\necho "before\\n";\nintdiv(1, 0);\n',
    "go": (
        'package main\n\nimport "fmt"\n\n'
        'func main() {\n\tfmt.Println("before")\n\tvar none map[string]int\n\tnone["x"] = 1\n}\n'
    ),
    "rs": 'fn main() {\n    println!("before");\n    None::<u8>.expect("broken");\n}\n',
    "c": ('#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts("before"); fflush(stdout); abort(); }\n'),
    "cpp": (
        "#include <iostream>\n#include <stdexcept>\n"
        'int main() { std::cout << "before" << std::endl; throw std::runtime_error("broken"); }\n'
    ),
    "java": (
        "class Main {\n  public static void main(String[] args) {\n"
        '    System.out.println("before");\n    throw new IllegalStateException("broken");\n  }\n}\n'
    ),
    "d": 'import std.stdio;\nvoid main() { writeln("before"); throw new Exception("broken"); }\n',
    "f90": 'program fails\n  print "(A)", "before"\n  open(10, file="none", status="old")\nend program\n',
}
"""Print `before`, then fail while running."""

FAILED: Final[dict[str, tuple[int | None, str | None, str]]] = {
    "py": (1, None, "ZeroDivisionError"),
    "js": (1, None, "TypeError"),
    "ts": (1, None, "main.ts:2"),
    "bash": (127, None, "no-such-command: command not found"),
    "r": (1, None, "Error: broken"),
    "php": (255, None, "DivisionByZeroError"),
    "go": (2, None, "assignment to entry in nil map"),
    "rs": (101, None, "broken"),
    "c": (None, "SIGABRT", "killed by signal 6 (SIGABRT)"),
    "cpp": (None, "SIGABRT", "broken"),
    "java": (1, None, "IllegalStateException: broken"),
    "d": (1, None, "broken"),
    "f90": (2, None, "Fortran runtime error"),
}
"""How FAILS ends: exit code, or signal, and what its tool says on standard error."""
