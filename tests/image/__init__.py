"""The executor's image: what is in it, and the sandbox's own tests inside it.

`python -m tests.image` (`make image-test`) mounts the built image and runs the suites with it as the root. Without a
built image these tests are skipped, and say so; with TEST_ALL=1 they fail.
"""
