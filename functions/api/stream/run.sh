#!/bin/sh
# The handler of the streaming function: Lambda Web Adapter's wrapper starts it in place of the runtime and passes
# each request on as HTTP, to AWS_LWA_PORT, once AWS_LWA_READINESS_CHECK_PATH (/v1/health) answers.
set -eu
PYTHONPATH="${LAMBDA_TASK_ROOT:-.}${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONPATH
# The adapter hands a trace on as a header, not to the process: X-Ray would warn of each call to the stores.
export POWERTOOLS_TRACE_DISABLED=1
exec python3 -m functions.api.stream
