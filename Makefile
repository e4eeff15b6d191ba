# make demo     compile the shipped network, build and check the C, classify its test set
# make test     the tests (25 minutes on 2 cores; less where the C was compiled before)
# make help     everything else
#
# The first run installs Python packages into .venv and needs a package index; after that nothing does.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
CC ?= cc
BIN := .venv/bin
EXAMPLE := examples/digits
DEMO := build/demo

# Networks and planner instances for tests that are too large to ship; those tests are skipped where it is absent.
MCC_SHARED ?= ../shared
export MCC_SHARED := $(abspath $(MCC_SHARED))

# Each process that a test starts would compile all modules and templates anew where Python is told to keep nothing.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX ?= $(abspath build/pycache)

.PHONY: budgets conformance fuzz golden pictures prove replay help demo test test-fast test-slow check docs bench bench-arm bench-blob bench-decoders bench-firmware bench-products bench-growth bench-extents bench-operators bench-planner bench-precision bench-precision-times bench-threads site wheel clean distclean
.DEFAULT_GOAL := help

help:
	@echo "make demo       compile the shipped network, build and check the C, classify its test set"
	@echo "make test       run the tests (25 minutes on 2 cores; less where the C was compiled before)"
	@echo "make test-fast  run those that take two minutes together"
	@echo "make test-slow  run the tests that make test leaves out"
	@echo "make check      ruff, mypy --strict, import-linter, template lint"
	@echo "make docs       write the generated tables under docs/"
	@echo "make bench      measure the C beside onnxruntime, write docs/performance.md (BENCH=\"--rounds 5 resnet50\": options)"
	@echo "make bench-firmware  count what MLPerf Tiny takes on emulated boards, write docs/firmware-performance.md"
	@echo "make bench-decoders  measure tokens of decoders, write docs/decoders.md (BENCH=\"--llama PROGRAM\": beside llama.cpp)"
	@echo "make bench-products  count what products of bytes take on vector machines, write docs/integer-products.md"
	@echo "make bench-arm   count what networks take on 64-bit Arm, beside onnxruntime, write docs/arm.md (BENCH=\"ds_cnn\": some)"
	@echo "make bench-precision  count what networks in fewer bits take on 64-bit Arm, write into docs/precision.md"
	@echo "make bench-precision-times  measure networks in bf16 on this machine (AVX512_BF16), write into docs/precision.md"
	@echo "make bench-threads  measure what a second thread gains, write into docs/threads.md"
	@echo "make bench-growth  compile networks of up to 100,000 nodes, write docs/compile-time.md"
	@echo "make bench-blob  what weights that grow buy, write docs/blob-growth.md (BENCH=\"resnet8\": some networks)"
	@echo "make bench-operators  measure operators beside onnxruntime, write docs/operator-times.md (BENCH=\"Resize\": some)"
	@echo "make bench-extents  count what extents of the run cost, write docs/extents.md (BENCH=\"minilm\": some networks)"
	@echo "make bench-planner  measure the memory planner, write docs/planner.md (EFFORTS=\"0 1 2 3\" searches longer)"
	@echo "make fuzz       attack the compiler with what is drawn (FUZZ=\"--minutes 60 --seed 7\": options), write build/fuzz"
	@echo "make prove      prove the runtime and drawn kernels with Frama-C, write the table of docs/proofs.md"
	@echo "make conformance  run the ONNX backend suite, write the table of docs/conformance.md"
	@echo "make budgets    count the instructions of kernels, write tests/budgets/budgets.json"
	@echo "make golden     write the C of small graphs anew, tests/golden/*.c: see what a template changes"
	@echo "make pictures   photograph the report for the README (needs chromium and MCC_SHARED)"
	@echo "make replay     compare what the networks compile to with HEAD (REPLAY=\"--rev main~3 --objects\": options)"
	@echo "make site       the documents as a site in build/site"
	@echo "make wheel      build the wheel into dist/"
	@echo "make clean      remove what was built; make distclean: .venv too"

.venv/.stamp-%: pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "mccompile needs Python 3.11 or newer. Install it, or name it: make PYTHON=/path/to/python3.12"; \
		exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { \
		rm -rf .venv; \
		echo "The virtual environment could not be made. On Debian and Ubuntu: apt install python3-venv"; \
		exit 1; }
	@echo "Installing the Python packages into .venv (the first time only) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$*]' || { \
		echo "The packages could not be installed. The first run needs the network (PyPI, or a mirror named in"; \
		echo "PIP_INDEX_URL); later runs do not. Run the same command again when it is there."; \
		exit 1; }
	@touch $@ $(if $(filter dev,$*),.venv/.stamp-check) # dev holds all of check

demo: .venv/.stamp-check
	@command -v $(firstword $(CC)) >/dev/null || { echo "No C compiler '$(CC)'. Install gcc or clang, or: $(BIN)/pip install ziglang && make demo CC='$(BIN)/python -m ziglang cc'"; exit 1; }
	$(BIN)/mccompile $(EXAMPLE)/digits.onnx -o $(DEMO)
	$(BIN)/mccompile check $(EXAMPLE)/digits.onnx
	$(BIN)/python $(EXAMPLE)/demo.py $(DEMO) --cc "$(CC)"

test: .venv/.stamp-dev
	@echo "All tests but the slow ones: 25 minutes on two cores, less where the C was compiled before. (make test-fast: two)"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

test-fast: .venv/.stamp-dev
	@echo "The fast tests: two minutes on two cores. (make test: 25)"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m fast

test-slow: .venv/.stamp-dev
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m slow

check: .venv/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/lint_templates.py
	$(BIN)/python tools/count_class_tests.py
	$(BIN)/python tools/lint_closures.py
	$(BIN)/python -m tools.make_docs --check

docs: .venv/.stamp-dev
	$(BIN)/python tools/write_options.py
	$(BIN)/mccompile ops --markdown > docs/operators.md.new && mv docs/operators.md.new docs/operators.md
	$(BIN)/python -m tools.make_docs
	$(BIN)/python benchmarks/optimizer_table.py

bench: .venv/.stamp-dev
	$(BIN)/python benchmarks/performance.py $(BENCH)

bench-firmware: .venv/.stamp-check
	$(BIN)/python benchmarks/firmware.py $(BENCH)

bench-decoders: .venv/.stamp-check
	PYTHONPATH=.$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python benchmarks/decoders.py $(BENCH)

bench-extents: .venv/.stamp-check
	PYTHONPATH=.$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python benchmarks/extents.py $(BENCH)

bench-operators: .venv/.stamp-check
	$(BIN)/python benchmarks/operators.py $(BENCH)

bench-products: .venv/.stamp-check
	$(BIN)/python benchmarks/products.py

bench-arm: .venv/.stamp-check
	$(BIN)/python benchmarks/arm.py $(BENCH)

bench-precision: .venv/.stamp-check
	$(BIN)/python benchmarks/precision.py $(BENCH)

bench-precision-times: .venv/.stamp-check
	$(BIN)/python benchmarks/precision_times.py $(BENCH)

bench-threads: .venv/.stamp-check
	$(BIN)/python benchmarks/threads.py $(BENCH)

bench-growth: .venv/.stamp-check
	$(BIN)/python benchmarks/growth.py $(BENCH)

bench-blob: .venv/.stamp-check
	PYTHONPATH=.$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python benchmarks/blob_growth.py $(BENCH)

bench-planner: .venv/.stamp-check
	$(BIN)/python benchmarks/bench_planner.py $(EFFORTS)

replay: .venv/.stamp-dev
	$(BIN)/python tools/replay.py $(REPLAY)

fuzz: .venv/.stamp-dev
	$(BIN)/python -m tests.support.fuzz $(FUZZ)

prove: .venv/.stamp-dev
	$(BIN)/python -m tests.support.prove --write $(PROVE)

conformance: .venv/.stamp-dev
	$(BIN)/python -m tests.support.conformance --write $(CONFORMANCE)

budgets: .venv/.stamp-dev
	$(BIN)/python -m tests.budgets.counted

golden: .venv/.stamp-dev
	$(BIN)/python -m tests.golden.golden
	@git status --short tests/golden 2>/dev/null || true

site: .venv/.stamp-dev .venv/.stamp-site
	$(BIN)/python tools/make_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pictures: .venv/.stamp-dev
	$(BIN)/python tools/make_pictures.py

wheel: .venv/.stamp-dev
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:
	rm -rf build dist .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv
