"""The programs that are timed: each prints `hello` and a newline."""

HELLO = {
    "py": 'print("hello")\n',
    "js": 'console.log("hello");\n',
    "ts": 'const word: string = "hello";\nconsole.log(word);\n',
    "bash": "echo hello\n",
    "r": 'cat("hello\\n")\n',
    "php": '<?php echo "hello\\n";\n',
    "go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n',
    "rs": 'fn main() { println!("hello"); }\n',
    "c": '#include <stdio.h>\nint main(void) { puts("hello"); }\n',
    "cpp": '#include <iostream>\nint main() { std::cout << "hello\\n"; }\n',
    "java": 'public class Hello { public static void main(String[] a) { System.out.println("hello"); } }\n',
    "d": 'import std.stdio;\nvoid main() { writeln("hello"); }\n',
    "f90": 'program main\n  print "(A)", "hello"\nend program main\n',
}
