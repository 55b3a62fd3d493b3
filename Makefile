# Two commands are enough: `make run` and `make test`. Each builds .venv by itself, from the lock,
# and a second call starts at once. Only Python 3.11 or newer and make are needed.

VENV := .venv
STAMP := $(VENV)/.installed
BIN := $(VENV)/bin
JOBS ?= 4
MACHINE := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x64)

# The first interpreter that is new enough; `make PYTHON=/path/to/python run` to choose one.
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(not sys.version_info >= (3, 11))' \
	2>/dev/null && { command -v "$$python"; exit; }; done)

.PHONY: help run test thorough bare smoke check lint types imports versions format coverage lock bench faults shared scale \
	red fuzz origin soak mutants models pictures counterparts agents neighbours attached crowd typed dist docs clean
.DEFAULT_GOAL := help

help: ## Show what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: $(STAMP) ## Open MindStone
	@$(BIN)/mindstone models offer
	@$(BIN)/mindstone $(ARGS)

test: $(STAMP) ## Run the tests, all but the thorough ones; those too where ARGS names some
	@$(BIN)/python -m pytest -q -n $(JOBS) $(if $(ARGS),$(ARGS),-m "not thorough")

thorough: $(STAMP) ## The tests that take long: whole screens, browsers, kills, long sessions
	@$(BIN)/python -m pytest -q -n $(JOBS) -m thorough $(ARGS)

bare: $(STAMP) ## The tests of sandboxes, hooks and tools where the programs they would like are missing
	@.ci/without bwrap strace tmux rg jq chromium -- $(BIN)/python -m pytest -q -n $(JOBS) \
		tests/core/tools tests/core/agent tests/core/features/test_hooks.py \
		tests/core/session/test_tools.py tests/core/features/test_jobs.py \
		tests/core/features/test_undo.py tests/cli/test_private_files.py tests/faults/test_homes.py \
		$(ARGS)

smoke: $(STAMP) ## Three short runs to watch; RUN=context-window, sliding-window or unified-session
	@$(BIN)/python -m tests.smoke $(RUN)

check: lint types imports ## Formatter, linter, types, import contracts

lint: $(STAMP) ## Formatter and linter only
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: $(STAMP) ## Types only
	@$(BIN)/mypy

imports: $(STAMP) ## Import contracts only
	@$(BIN)/lint-imports

versions: $(STAMP) ## Syntax, types and locked wheels for every Python that is promised
	@for version in 3.11 3.12 3.13 3.14; do echo "Python $$version"; \
		$(BIN)/ruff check -q --select E9,F --target-version py$$(echo $$version | tr -d .) mindstone_tui && \
		$(BIN)/mypy --python-version $$version mindstone_tui && \
		$(BIN)/uv pip install -q --dry-run --no-deps --only-binary :all: --target $(VENV)/none \
			--python-version $$version -r requirements.lock || exit; done

format: $(STAMP) ## Bring the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

dist: $(STAMP) ## Build a wheel into dist/, man page included, to install anywhere: pipx install dist/*.whl
	@$(BIN)/python -m tests.man_page
	@$(BIN)/uv build --wheel -q -o dist .

docs: $(STAMP) ## Build the pages of docs/ as a site into site/, every link checked
	@$(BIN)/uv venv -q --allow-existing $(VENV)/docs
	@$(BIN)/uv pip install -q --python $(VENV)/docs --require-hashes -r docs/site.lock
	@$(VENV)/docs/bin/python -m mkdocs build --strict

coverage: $(STAMP) ## Which lines the tests reach, in one process; ARGS=tests/core/recall for a part
	@$(BIN)/coverage run -m pytest -q $(ARGS)
	@$(BIN)/coverage report

bench: $(STAMP) ## Measure speed and size, at full length
	@for bench in tests/bench/bench_*.py; do \
		MINDSTONE_BENCH=$${MINDSTONE_BENCH-full} $(BIN)/python "$$bench" || exit; done

faults: $(STAMP) ## Crash, fill and tear the disk, and every provider fault, at full length
	@MINDSTONE_FAULTS=1 $(BIN)/python -m pytest -q -s tests/faults tests/core/transcript \
		tests/core/config tests/core/test_entries.py tests/core/test_paths.py \
		tests/core/context/test_spikes.py tests/core/shared/test_away.py tests/core/shared/test_sync.py \
		tests/core/replay/test_verify_requests.py tests/core/replay/test_generated_sessions.py \
		tests/core/replay/test_compare.py tests/core/providers/test_stream.py \
		tests/core/providers/test_wire_parts.py tests/core/providers/test_litellm_faults.py \
		tests/core/session/test_provider_faults.py tests/core/session/test_coding_session.py \
		tests/core/session/test_recall.py tests/core/session/test_alerts_live.py \
		tests/core/session/test_what_counts.py \
		tests/core/interchange/test_formats.py tests/tui/test_hostile.py $(ARGS)

shared: $(STAMP) ## Many machines, one history, kills and cuts; needs minutes
	@$(BIN)/python -m tests.faults.shared_history $(ARGS)
	@$(BIN)/python -m tests.faults.shared_turns

scale: $(STAMP) ## 10,000 people with 100 sessions on one history server; needs minutes
	@$(BIN)/python -m tests.bench.shared_scale $(ARGS)

red: $(STAMP) ## Hostile hands: kills, faults, damage, secrets, signals …; ROOM=damage for one
	@$(BIN)/python -m tests.red $(ROOM) $(ARGS)

fuzz: $(STAMP) ## Damaged bytes for everything that reads foreign ones, for MINUTES of processor time
	@$(BIN)/python -m tests.red.fuzz --minutes $(or $(MINUTES),60) $(ARGS)

origin: $(STAMP) ## Blame every line of generated repositories; COMMITS=50 for fewer than 500
	@MINDSTONE_ORIGIN=$(or $(COMMITS),500) $(BIN)/python -m pytest -q -s tests/core/library/test_blame.py -k no_line

soak: $(STAMP) ## 10,000 turns in one session, with tools, prunes and faults
	@$(BIN)/python -m tests.red soak $(ARGS)

mutants: $(STAMP) ## Plant faults in the modules that carry the laws; MODULE=context.fold for one, SEED=7
	@$(BIN)/python -m tests.mutants $(MODULE) --seed $(or $(SEED),1) $(ARGS)

crowd: $(STAMP) ## Eight clients and the app in one session, for a thousand turns
	@MINDSTONE_CROWD=1000 $(BIN)/python -m pytest -q tests/servers/test_gateway.py -k one_turn

typed: $(STAMP) ## Write at the app while 10,000 approvals open, and in tmux; ROUNDS=20 for less than 40 there
	@MINDSTONE_TYPED=$(or $(ROUNDS),40) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal \
		tests/tui/test_typed_for_real.py tests/tui/test_decisions.py

models: $(STAMP) ## Figures of a downloaded model; MODEL=qwen-coder-0.5b for another
	@$(BIN)/python -m tests.bench.local_models $(or $(MODEL),qwen-coder-1.5b) --minutes 600 $(ARGS)

pictures: $(STAMP) ## Draw the pictures of the README and the docs
	@$(BIN)/python -m tests.pictures

counterparts: ## Fetch the programs of others that some tests talk to (needs npm)
	@npm install --prefix .counterparts --no-audit --no-fund --silent \
		@modelcontextprotocol/inspector@2.12.0 acpx@0.1.15 @agentclientprotocol/sdk@2.4.0 axe-core@4.14.0

agents: $(STAMP) ## Fetch Claude Code, Codex and others, which some tests run (2 GB, needs npm)
	@npm install --prefix .counterparts --no-audit --no-fund --silent --force \
		@anthropic-ai/claude-code-linux-$(MACHINE)@2.1.325 \
		codex-program@npm:@openai/codex@0.166.0-linux-$(MACHINE) \
		@qwen-code/qwen-code@0.15.10 opencode-linux-$(MACHINE)@1.18.18 \
		@mariozechner/pi-coding-agent@0.73.1 @github/copilot@1.0.102 @google/gemini-cli@0.61.0
	@for each in llm==0.36 aider-chat==0.86.2; do to=.counterparts/$${each%==*}; \
		$(BIN)/uv venv -q --allow-existing $$to && $(BIN)/uv pip install -q --python $$to $$each || exit; done

neighbours: $(STAMP) ## Run the programs of others that were fetched, with every fault, and print a table
	@MINDSTONE_FAULTS=1 $(BIN)/python -m pytest -q -n 2 -p tests.neighbours -m neighbour tests/servers $(ARGS)

attached: $(STAMP) ## Kill hooks, residents and attached programs a hundred times; KILLS=20 for fewer
	@$(BIN)/python -m tests.faults.attached_kills $(or $(KILLS),100)

lock: $(STAMP) ## Renew requirements.lock: hashed, for Linux and macOS, naming no index
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal \
		--python-version 3.11 --generate-hashes --no-header --no-emit-index-url --upgrade \
		--output-file requirements.lock

clean: ## Remove what was built
	@rm -rf $(VENV) dist site build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@rm -rf .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package itself is installed last and editable, so that the lock alone decides the rest.
$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo "MindStone needs Python 3.11 or newer with venv, and none was found." >&2; \
		echo "Install one (Debian: apt install python3 python3-venv), or set PYTHON=…" >&2; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON), once: some 140 packages, a few minutes …" >&2
	@rm -f $@
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@
