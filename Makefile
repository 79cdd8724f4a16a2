# `make demo` and `make test` do all set-up themselves; `make setup` alone leaves everything in .venv.
PYTHON ?= python3
BIN := .venv/bin
LEARNER := src/headrace/learner
LEARNER_SOURCES := $(addprefix $(LEARNER)/,library.c learner.c learner_avx2.c learner_avx512.c) $(wildcard $(LEARNER)/games/*.c)
LEARNER_FLAGS := -std=c11 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wall -Wextra

.PHONY: demo docs learner sanitized hosts fuzz test setup lint long-test test-elsewhere lock clean

demo: setup
	$(BIN)/python examples/demo.py

# The learner's library alone, in place: enough after a change of a C source.
learner:
	@rm -f $(LEARNER)/_learner.*
	$(CC) $(LEARNER_FLAGS) -Werror -shared -fPIC -o $(LEARNER)/_learner.so $(LEARNER_SOURCES) -lm

# The same with AddressSanitizer and UndefinedBehaviorSanitizer, for `make test-elsewhere ONLY=sanitized`.
sanitized: LIBRARY ?= $(LEARNER)/_sanitized.so
sanitized:
	gcc $(LEARNER_FLAGS) -O1 -g -Werror -fsanitize=address,undefined -fno-sanitize-recover=all -DHR_FENCED -shared -fPIC -o $(LIBRARY) $(LEARNER_SOURCES) -lm

# MinAtar's part of the parity suite with other compilers and, under qemu-user, on other processors.
hosts: setup
	$(BIN)/python -m pytest -m long -v tests/engines/learner/test_hosts.py

# Descriptions, saved states and observations that nobody would write, against the learner; needs clang.
fuzz: setup
	nice $(BIN)/python -m tests.engines.learner.fuzz --seconds $(or $(SECONDS),600)

# The documentation site, into site/. A warning is an error. Its search needs a server: python -m http.server -d site
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Most of the time of a small computation is compilation: the usual run has XLA optimise little. `make test QUICK=`, the
# long run and pytest by hand compile as users do. Processes that tests start inherit it, as digests are compared.
QUICK := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false
test test-elsewhere: export XLA_FLAGS := $(strip $(XLA_FLAGS) $(QUICK))

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

long-test: setup
	@echo "The long tests take about an hour on two cores."
	$(BIN)/python -m pytest -n 2 -m long

# The usual suite as other machines would run it; ONLY=sse4.2,one-core chooses some of them.
test-elsewhere: setup
	$(BIN)/python -m tests.elsewhere --only "$(ONLY)"

setup: .venv/ready

.venv/ready: requirements.lock pyproject.toml setup.py $(wildcard src/headrace/learner/*.[ch] src/headrace/learner/games/*.[ch])
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"headrace needs Python 3.11 or newer, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

# Needs uv. The lock names exact versions for every platform and Python that headrace supports.
lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-header --no-annotate --output-file requirements.lock

clean:
	rm -rf .venv
