"""Reading and writing files in thirteen languages, written by hand. `@NAME@` stands for a path without quotes in it."""

from __future__ import annotations

from typing import Final

READ: Final = {
    "py": 'print(open("@NAME@", encoding="utf-8").read(), end="")\n',
    "js": 'process.stdout.write(require("fs").readFileSync("@NAME@", "utf8"));\n',
    "ts": 'import * as fs from "fs";\nprocess.stdout.write(fs.readFileSync("@NAME@", { encoding: "utf8" }));\n',
    "bash": 'cat "@NAME@"\n',
    "r": 'writeLines(readLines("@NAME@"))\n',
    "php": '<?php\necho file_get_contents("@NAME@");\n',
    "go": (
        'package main\n\nimport (\n\t"os"\n)\n\nfunc main() {\n\tall, err := os.ReadFile("@NAME@")\n'
        "\tif err != nil {\n\t\tpanic(err)\n\t}\n\tos.Stdout.Write(all)\n}\n"
    ),
    "rs": 'fn main() { print!("{}", std::fs::read_to_string("@NAME@").unwrap()); }\n',
    "c": (
        '#include <stdio.h>\nint main(void) {\n  FILE *f = fopen("@NAME@", "r");\n'
        "  if (!f) { perror(0); return 1; }\n  for (int c; (c = getc(f)) != EOF;) putchar(c);\n}\n"
    ),
    "cpp": (
        "#include <fstream>\n#include <iostream>\nint main() {\n"
        '  std::ifstream f("@NAME@");\n  std::cout << f.rdbuf();\n}\n'
    ),
    "java": (
        "import java.nio.file.*;\nclass Main {\n  public static void main(String[] args) throws Exception {\n"
        '    System.out.print(Files.readString(Path.of("@NAME@")));\n  }\n}\n'
    ),
    "d": 'import std.file, std.stdio;\nvoid main() { write(readText("@NAME@")); }\n',
    "f90": (
        "program reads\n  character(len=200) :: line\n  integer :: status\n"
        '  open(10, file="@NAME@", status="old", action="read")\n  do\n'
        '    read(10, "(A)", iostat=status) line\n    if (status /= 0) exit\n    print "(A)", trim(line)\n'
        "  end do\nend program\n"
    ),
}
"""Print the text file `@NAME@` as it is; its lines end with newlines and not with spaces."""

WRITE: Final = {
    "py": (
        'import os\nos.makedirs("dir/sub", exist_ok=True)\n'
        'open("dir/sub/@NAME@", "w").write("@TEXT@\\n")\nprint("π 🤣")\n'
    ),
    "js": (
        'const fs = require("fs");\nfs.mkdirSync("dir/sub", { recursive: true });\n'
        'fs.writeFileSync("dir/sub/@NAME@", "@TEXT@\\n");\nconsole.log("π 🤣");\n'
    ),
    "ts": (
        'import fs from "node:fs";\nimport { promisify } from "node:util";\n'
        'await promisify(fs.mkdir)("dir/sub", { recursive: true });\n'
        'const text: string = "@TEXT@\\n";\nfs.writeFileSync("dir/sub/@NAME@", text);\nconsole.log("π 🤣");\n'
    ),
    "bash": "mkdir -p dir/sub\necho '@TEXT@' > 'dir/sub/@NAME@'\necho 'π 🤣'\n",
    "r": (
        'dir.create("dir/sub", recursive = TRUE, showWarnings = FALSE)\n'
        'writeLines("@TEXT@", "dir/sub/@NAME@")\ncat("π 🤣\\n")\n'
    ),
    "php": (
        '<?php\n@mkdir("dir/sub", 0755, true);\nfile_put_contents("dir/sub/@NAME@", "@TEXT@\\n");\necho "π 🤣\\n";\n'
    ),
    "go": (
        'package main\n\nimport (\n\t"fmt"\n\t"os"\n)\n\nfunc main() {\n'
        '\tif err := os.MkdirAll("dir/sub", 0o755); err != nil {\n\t\tpanic(err)\n\t}\n'
        '\tif err := os.WriteFile("dir/sub/@NAME@", []byte("@TEXT@\\n"), 0o644); err != nil {\n\t\tpanic(err)\n\t}\n'
        '\tfmt.Println("π 🤣")\n}\n'
    ),
    "rs": (
        'fn main() {\n    std::fs::create_dir_all("dir/sub").unwrap();\n'
        '    std::fs::write("dir/sub/@NAME@", "@TEXT@\\n").unwrap();\n    println!("π 🤣");\n}\n'
    ),
    "c": (
        "#include <stdio.h>\n#include <sys/stat.h>\nint main(void) {\n"
        '  mkdir("dir", 0755);\n  mkdir("dir/sub", 0755);\n  FILE *f = fopen("dir/sub/@NAME@", "w");\n'
        '  if (!f) { perror(0); return 1; }\n  fputs("@TEXT@\\n", f);\n  fclose(f);\n  puts("π 🤣");\n}\n'
    ),
    "cpp": (
        "#include <filesystem>\n#include <fstream>\n#include <iostream>\nint main() {\n"
        '  std::filesystem::create_directories("dir/sub");\n'
        '  std::ofstream("dir/sub/@NAME@") << "@TEXT@\\n";\n  std::cout << "π 🤣\\n";\n}\n'
    ),
    "java": (
        "import java.nio.file.*;\nclass Writer {\n  public static void main(String[] args) throws Exception {\n"
        '    Files.createDirectories(Path.of("dir/sub"));\n'
        '    Files.writeString(Path.of("dir/sub/@NAME@"), "@TEXT@\\n");\n    System.out.println("π 🤣");\n  }\n}\n'
    ),
    "d": (
        'import std.file, std.stdio;\nvoid main() {\n  mkdirRecurse("dir/sub");\n'
        '  std.file.write("dir/sub/@NAME@", "@TEXT@\\n");\n  writeln("π 🤣");\n}\n'
    ),
    "f90": (
        'program writes\n  call execute_command_line("mkdir -p dir/sub")\n'
        '  open(10, file="dir/sub/@NAME@", action="write")\n  write(10, "(A)") "@TEXT@"\n  close(10)\n'
        '  print "(A)", "π 🤣"\nend program\n'
    ),
}
"""Write the line `@TEXT@` to `dir/sub/@NAME@`, making the folders where they are not there, and print `π 🤣`."""
