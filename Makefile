# `make train` and `make test` need nothing but Python 3.11 to 3.13 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= runs/toy-circle
SIMULATORS := .simulators

.PHONY: help train simulators test test-simulators test-slow lint format lock clean

help:
	@echo "make train            set up, train O3SRL on toy-circle with three seeds, evaluate, write a report ($(OUT))"
	@echo "make test             set up, run the tests"
	@echo "make test-slow        also the long experiments"
	@echo "make simulators       Bullet-Safety-Gym and Safety-Gymnasium, in $(SIMULATORS), for o3srl evaluate"
	@echo "make test-simulators  set them up, run the tests of all their tasks"
	@echo "make lint             ruff and pyright"
	@echo "make format           let ruff format the code"
	@echo "make lock             resolve the newest allowed versions into requirements.lock"
	@echo "make clean            remove the virtual environments (runs stay)"

train: $(VENV)/.ready
	@$(BIN)/o3srl train --task toy-circle --limit 5 --seeds 10 20 30 --out $(OUT) --overwrite
	@$(BIN)/o3srl evaluate $(OUT)
	@$(BIN)/o3srl report $(OUT)

simulators: $(SIMULATORS)/.ready

test: $(VENV)/.ready-test
	$(BIN)/pytest -n auto -m "not slow"

test-simulators: $(VENV)/.ready-test $(SIMULATORS)/.ready
	$(BIN)/pytest -n auto -m simulator tests

test-slow: $(VENV)/.ready-test
	$(BIN)/pytest --timeout 3600

lint: $(VENV)/.ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.ready-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/.ready-test
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --quiet --no-header --no-annotate --no-emit-index-url \
		--no-emit-find-links --extra test --extra lint --extra bullet --upgrade pyproject.toml -o requirements.lock

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else \
		"o3srl needs Python 3.11 to 3.13, but $(PYTHON) is %d.%d. Try: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The lock file holds exact versions for every supported Python; it constrains what pyproject.toml asks for.
$(VENV)/.ready: $(VENV)/.made pyproject.toml requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[test,lint,bullet]'
	@touch $@

# Simulators are bound to Python 3.11 and to old versions, so they have an environment of their own: `o3srl.envs` asks
# whatever Python lies there. Safety-Gymnasium's pins do not install as they are; uv can override them, pip cannot.
$(SIMULATORS)/.ready: o3srl/envs/simulators.txt o3srl/envs/overrides.txt | $(VENV)/.made
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --python 3.11 $(SIMULATORS)
	$(BIN)/uv pip install --quiet --python $(SIMULATORS) --override o3srl/envs/overrides.txt -r o3srl/envs/simulators.txt
	@touch $@

clean:
	rm -rf $(VENV) $(SIMULATORS)
