"""One small program in each language, and what it prints: the demonstration of `make run`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """A program and its exact standard output."""

    lang: str
    title: str
    code: str
    prints: str


PROGRAMS = (
    Program("py", "Python", "import numpy\nprint(numpy.arange(5) ** 2)\n", "[ 0  1  4  9 16]\n"),
    Program("js", "JavaScript", 'console.log([3, 1, 2].sort().join(" < "));\n', "1 < 2 < 3\n"),
    Program("ts", "TypeScript", "enum Day { Mon = 1, Tue }\nconst d: Day = Day.Tue;\nconsole.log(Day[d]);\n", "Tue\n"),
    Program("bash", "Bash", "for i in 1 2 3; do printf '%s ' $((i * i)); done; echo\n", "1 4 9 \n"),
    Program("r", "R", "cat(mean(c(1, 2, 6)), '\\n')\n", "3 \n"),
    Program("php", "PHP", "<?php echo implode(',', array_map(fn($n) => $n ** 3, [1, 2, 3])), PHP_EOL;\n", "1,8,27\n"),
    Program(
        "go",
        "Go",
        'package main\n\nimport "fmt"\n\nfunc main() {\n\tc := make(chan int, 1)\n\tgo func() { c <- 42 }()\n'
        "\tfmt.Println(<-c)\n}\n",
        "42\n",
    ),
    Program(
        "rs",
        "Rust",
        'fn main() {\n    let n: u64 = (1..=20).product();\n    println!("{n}");\n}\n',
        "2432902008176640000\n",
    ),
    Program(
        "c", "C", '#include <math.h>\n#include <stdio.h>\nint main(void) { printf("%.3f\\n", sqrt(2)); }\n', "1.414\n"
    ),
    Program(
        "cpp",
        "C++",
        "#include <algorithm>\n#include <iostream>\n#include <vector>\nint main() {\n  std::vector v{3, 1, 2};\n"
        "  std::ranges::sort(v);\n  for (int n : v) std::cout << n << '\\n';\n}\n",
        "1\n2\n3\n",
    ),
    Program(
        "java",
        "Java",
        "import java.util.stream.*;\n\npublic class Sum {\n    public static void main(String[] args) {\n"
        "        System.out.println(IntStream.rangeClosed(1, 100).sum());\n    }\n}\n",
        "5050\n",
    ),
    Program("d", "D", "import std.stdio, std.range;\nvoid main() { writeln(iota(1, 6)); }\n", "[1, 2, 3, 4, 5]\n"),
    Program(
        "f90",
        "Fortran",
        "program main\n  integer :: i\n  print '(I0)', sum([(i * i, i = 1, 10)])\nend program main\n",
        "385\n",
    ),
)
