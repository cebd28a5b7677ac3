# Workroom. `make run` sets up and serves; `make test` sets up and checks. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE ?= /var/cache/workroom
VENV  := .venv
PY    := $(VENV)/bin/python
LANGS ?= py,js,ts,bash,r,php,go,rs,c,cpp,java,d,f90
PORT  ?= 8080
DATA  ?= .data
DEMO  ?= 1
JOBS  ?= $(shell nproc)

export WORKROOM_CACHE := $(CACHE)

HOST_PACKAGES := bubblewrap libseccomp-dev gcc libc6-dev
STAMP := $(VENV)/.installed

# The wire suite behind the HTTP API's events, on DynamoDB and S3 of the emulator.
ON_AWS := TEST_STORE=aws $(VENV)/bin/pytest tests/wire tests/agents -k http-api -n $(JOBS) --dist loadfile

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | column -t -s "$$(printf '\t')"

.PHONY: setup
setup: $(STAMP) host jail root tools ## install what running and testing need; quick when it is there

$(STAMP): pyproject.toml constraints.txt
	@echo "setup: Python packages into $(VENV) (about 150 MB, under a minute)"
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "setup: Python 3.11 or later is needed" >&2; exit 1; }
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv; }
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

.PHONY: host
host:
	@missing=""; for package in $(HOST_PACKAGES); do \
	  dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then \
	  echo "setup: host packages:$$missing (about 60 MB)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi

.PHONY: jail
jail: $(STAMP) host
	@$(PY) -m sandbox_image.locate jail --cache $(CACHE) >/dev/null

.PHONY: root
root:
	@sandbox_image/toolchains/build --langs $(LANGS) --cache $(CACHE) >/dev/null

.PHONY: tools
tools: $(STAMP) root
	@$(PY) -m tests.tools
	@$(PY) -m tests.sandbox.emulator >/dev/null

.PHONY: run
run: $(STAMP) host jail root ## set up, demonstrate the thirteen languages, serve on 127.0.0.1 (PORT= DATA= LANGS= DEMO=0)
	@export WORKROOM_PORT=$(PORT) WORKROOM_DATA=$(DATA) WORKROOM_LOG_LEVEL=$${WORKROOM_LOG_LEVEL:-warning} \
	  WORKROOM_ROOT="$$(sandbox_image/toolchains/build --print --langs $(LANGS) --cache $(CACHE))"; \
	[ "$(DEMO)" = 0 ] || $(PY) -m functions.cli.demo --wait & \
	exec $(VENV)/bin/workroom serve

.PHONY: demo
demo: $(STAMP) ## repeat the demonstration against a running service (PORT= DATA=)
	@WORKROOM_PORT=$(PORT) WORKROOM_DATA=$(DATA) $(PY) -m functions.cli.demo

.PHONY: lint
lint: $(STAMP) ## ruff
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

.PHONY: types
types: $(STAMP) ## mypy --strict
	@$(VENV)/bin/mypy

.PHONY: test
test: ## set up, lint, types and every suite
	@begun=$$(date +%s); $(MAKE) --no-print-directory setup; echo "set-up took $$(( $$(date +%s) - begun )) s"
	@$(MAKE) --no-print-directory lint types
	@begun=$$(date +%s); $(ON_AWS); $(VENV)/bin/pytest -n $(JOBS) --dist loadfile; echo "tests took $$(( $$(date +%s) - begun )) s"

.PHONY: test-all
test-all: test image-test ## the same, the executor's image (build it, test in it), and every fault at every request of a write
	@TEST_ALL=1 $(VENV)/bin/pytest -n $(JOBS) --dist loadfile tests/agents_writes

.PHONY: image
image: ## build the executor's image with the container engine that is there (BASE=debootstrap: no registry)
	@sandbox_image/image/build $(if $(BASE),--base $(BASE))

.PHONY: image-test
image-test: $(STAMP) tools jail image ## the sandbox's tests inside the image
	@$(PY) -m tests.image -n $(JOBS) --dist loadfile

.PHONY: e2e
e2e: setup ## deploy the template in an emulator on this machine and use it (part of `make test`)
	@$(ON_AWS); $(VENV)/bin/pytest tests/e2e

.PHONY: local-invoke
local-invoke: $(STAMP) tools ## invoke a function in a container with a sample (EVENT=direct/exec.run SET="credential=…")
	@$(PY) events/invoke $(EVENT) $(SET)

.PHONY: bench
bench: setup ## measure; the table goes to docs/benchmarks.md
	@$(PY) -m tests.bench.main

.PHONY: bench-image
bench-image: $(STAMP) tools jail image ## measure the executor's image under Lambda's emulator
	@$(PY) -m tests.bench.function --image

.PHONY: clean
clean: ## remove what set-up made in this folder (the machine's cache stays)
	rm -rf $(VENV) .build .mypy_cache .ruff_cache *.egg-info
