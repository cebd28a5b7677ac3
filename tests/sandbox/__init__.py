"""The executor function under the Lambda runtime emulator, in the toolchain root, as an unprivileged user."""
