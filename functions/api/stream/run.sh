#!/bin/sh
# The handler of the streaming function: Lambda Web Adapter's wrapper starts it in place of the runtime and passes
# each request on as HTTP, to AWS_LWA_PORT, once AWS_LWA_READINESS_CHECK_PATH (/v1/health) answers.
set -eu
PYTHONPATH="${LAMBDA_TASK_ROOT:-.}${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
exec python3 -m functions.api.stream
