# make quickstart   train a recursive transformer and a GPT, compare them; then train a cell model and prove it
# make test         run all tests
# make check        formatter, linter and type checker
# make notebooks    run the notebooks in examples/, in some minutes
# make coq          write the theorem of an integer model, MODEL=tiny-int4-seed0, and check it with coqc
# make install      only install into .venv
# make docs         build the website of the docs in build/site, with warnings as errors
# make docs-serve   the same at http://localhost:8000
# make lowest       run tests with the oldest packages that pyproject.toml permits, by uv, in .venv-lowest

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Python's own pip may be too old for dependency groups: 25.1 or newer is installed first.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

# Printed by the quickstart at its end.
define NEXT
5. Next (the commands are in .venv/bin):
  runs/first/compared.png                                       the transformer and the GPT, by length
  tensorboard --logdir runs                                     curves, samples and attention, at http://localhost:6006
  trm solve --checkpoint runs/trm-first --view random 101x110   a problem of your own, in binary
  trm solve 123456789x987654321                                 the shipped model, decimal
  trm fit --config trm/quick_turned                             the same in decimal, some twenty minutes
endef
export NEXT

.PHONY: quickstart first-trm first-gpt test check notebooks coq install docs docs-serve lowest clean

# One thread: as fast, and sums are rounded as in the runs of the log.
quickstart: export OMP_NUM_THREADS ?= 1
quickstart: $(INSTALLED)
	@echo "1. A recursive transformer and a GPT of its size learn binary multiplication, side by side."
	@$(MAKE) --no-print-directory --jobs 2 first-trm first-gpt
	@echo "In the meantime the GPT has printed:"; cat runs/gpt-first.log
	@rm -rf runs/first  # of an earlier quickstart
	@echo "2. Both solve problems of training's lengths, and longer ones."
	$(BIN)/trm evaluate --checkpoint runs/trm-first runs/gpt-first --digits-a 4,5,7 --digits-b 4,5,7 --problems 10 --output runs/first
	@echo "3. The recursive transformer solves a longer problem, in an orientation that it is not told."
	$(BIN)/trm solve --checkpoint runs/trm-first --view random 101101x11011
	@echo "4. A cell model learns decimal multiplication, and is proved correct at every length."
	$(BIN)/trm fit --config configs/quickstart.yaml
	-$(BIN)/trm prove --checkpoint runs/quickstart --as-computed
	$(BIN)/trm solve --checkpoint runs/quickstart --demo
	@echo "$$NEXT"

first-trm:
	$(BIN)/trm fit --config configs/trm/first.yaml

first-gpt:
	@mkdir -p runs
	@$(BIN)/trm fit --config configs/gpt/first.yaml >runs/gpt-first.log 2>&1 || { cat runs/gpt-first.log; exit 1; }

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

notebooks: $(INSTALLED)
	$(PIP) --group notebooks
	$(BIN)/python -m pytest -m slow tests/examples/test_notebooks.py

MODEL ?= tiny-int4-seed0
coq: $(INSTALLED)
	@command -v coqc >/dev/null || { echo "make coq needs coqc: apt install coq"; exit 1; }
	@mkdir -p build/coq
	$(BIN)/trm prove --checkpoint $(MODEL) --coq build/coq/theorem.v
	cd build/coq && coqc -q theorem.v

install: $(INSTALLED)

docs: $(INSTALLED)
	@$(PIP) --group docs
	$(BIN)/python docs/site/build.py

docs-serve: $(INSTALLED)
	@$(PIP) --group docs
	$(BIN)/python docs/site/build.py --serve

$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
		{ echo "There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed, $(PYTHON) is older. Name one: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing into .venv (some minutes the first time) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) 'pip>=25.1' && $(PIP) --editable . --group dev || \
		{ echo "The installation failed: see above. Is there a network?"; exit 1; }
	@echo "Compiling what was installed ..."
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true  # on all cores; pip takes one
	@touch $@

# PyTorch as in constraints.txt: an older one for this machine may not exist. Warnings that older packages
# raise are not errors here. TESTS=tests/canvas runs a part.
TESTS ?= tests
TORCH ?= --torch-backend cpu
lowest:
	@command -v uv >/dev/null || { echo "make lowest needs uv: pip install uv"; exit 1; }
	uv venv --quiet --clear --python '>=3.11,<3.12' .venv-lowest
	uv pip install --quiet --python .venv-lowest --resolution lowest-direct $(TORCH) \
		"$$(grep '^torch==' constraints.txt)" --group dev --editable .
	.venv-lowest/bin/python -m pytest --numprocesses auto --override-ini filterwarnings=default $(TESTS)

clean:
	rm -rf .cache .venv .venv-lowest build *.egg-info
