# candle-rocm: `make help` lists the targets.

CANDLE ?= 0.11.1
ARCH   ?=
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
# Lists the mutants. A seed draws from this list, so a draw depends on this version.
CARGO_MUTANTS := 27.1.0
# Writes requirements.lock.
UV := 0.13.9

# One cargo profile and one target folder for everything: fast enough to test, small enough to keep.
export CARGO_PROFILE_DEV_OPT_LEVEL ?= 1
export CARGO_PROFILE_DEV_DEBUG ?= 0
export CARGO_PROFILE_DEV_LTO ?= off

export ARCH

# Further targets that `test` makes, beside what is built; of its parts, those that need nothing built may be named too.
ALSO ?=
# Run by `test` so many at a time, on two cores: cargo leaves one idle while it waits for a large crate.
AT_ONCE ?= 3
# Made first, and then no more: make begins what does not wait for anything before what does.
BUILT := rocm-toolchain emulator planner nvidia amdgpu
MADE := $(addprefix --old-file=,setup $(BUILT))
# The longest ones first, so that no core is left idle in the end.
PARTS := $(filter-out $(ALSO),releases newest model-tests code-objects unit machine-code kernel-tests sabotage mutations attacks browser-tests)
# One after another, with one target folder, and `releases` with another: two runs of cargo in one folder wait for each other.
NEWEST_PARTS := newest-release backend-tests

.DEFAULT_GOAL := help
.PHONY: help setup lock generate test unit kernels workbench emulator nvidia amdgpu amdgpu-tables planner bench-gpu bench-models bench-host rocm-toolchain code-objects machine-code model-tests \
	kernel-tests newest backend-tests browser-tests tsan mutations sabotage attacks mutants mutants-emulator mutants-planner releases newest-release lint format docs \
	regen acceptance bench clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create the virtual environment with all packages.

# Only locked packages, from the index that pip is configured for. This also covers the build of this package. The list
# is complete: left to find dependencies itself, pip takes a newer release for a locked one that is asked for with extras.
$(VENV)/.ready: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
	touch $@

lock: build/tools/uv/bin/uv ## Update requirements.lock, for Python 3.11 and later on all systems.
	index=$$($(PYTHON) -m pip config get global.index-url 2>/dev/null); \
	$${index:+env UV_DEFAULT_INDEX=$$index} $< pip compile --quiet --upgrade --universal --python-version 3.11 --extra dev \
		--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		--output-file requirements.lock pyproject.toml

build/tools/uv/bin/uv:
	$(PYTHON) -m venv build/tools/uv
	build/tools/uv/bin/pip install --quiet uv==$(UV)

generate: setup ## Generate the ROCm backend for CANDLE (0.11.1), show its sites, and check that it compiles.
	$(BIN)/candle-rocm generate $(CANDLE)
	$(BIN)/candle-rocm scan $(CANDLE)
	$(BIN)/candle-rocm verify $(CANDLE) --only check-off --only check-on

# CDNA 3, RDNA 2, 3 and 4: each kind of matrix unit, and none.
SOME_ARCH := gfx942,gfx1030,gfx1100,gfx1201
# Of what takes hours as a whole, a part; `make code-objects`, `mutations`, `sabotage` and `attacks` do all.
test: export ARCH := $(or $(ARCH),$(SOME_ARCH))
# Of the families, those that hipRTC and ROCm's oldest clang compile as well.
test: export FAMILIES := $(or $(FAMILIES),cast matmul softmax)
test: export MUTATIONS := $(or $(MUTATIONS),2)
test: export ATTACKS := $(or $(ATTACKS),200)
# The acts left out build candle-core's tests once more, or another release.
test: export ACTS := $(or $(ACTS),--except=rocm-tests --except=0.9.1)
test: setup ## Run every test: tool, kernels, the backend, patched Candle releases.
	@status=0; \
	$(MAKE) --keep-going --jobs=$(AT_ONCE) --output-sync=target $(BUILT) $(ALSO) || status=$$?; \
	echo "$(words $(PARTS)) parts, $(AT_ONCE) at a time; each prints what it did when it has ended"; \
	$(MAKE) --keep-going --jobs=$(AT_ONCE) --output-sync=target $(MADE) $(PARTS) || status=$$?; \
	exit $$status

newest: setup $(BUILT)
	@status=0; for part in $(NEWEST_PARTS); do $(MAKE) $(MADE) $$part || status=$$?; done; exit $$status

# What is left out of a part, as --ignore=FILE or --deselect=TEST; without these variables, nothing.
UNIT_LEAVES ?=
KERNEL_LEAVES ?=
ROCM_LEAVES ?=
RELEASE_LEAVES ?=
BACKEND_LEAVES ?=

unit: setup rocm-toolchain ## Run the tool's own tests (minutes).
	$(BIN)/pytest -n auto tests/unit tests/golden $(UNIT_LEAVES)

kernels: setup ## Render the HIP kernels from their specs (generated/kernels, docs/kernels.md).
	$(BIN)/candle-rocm kernels render

workbench: setup ## Write a patched CANDLE to build/workbench, with links to the backend's sources, for editors and cargo.
	$(BIN)/python -m codegen.workbench $(CANDLE) build/workbench

emulator: ## Build the emulated HIP device.
	cargo build --quiet --release --locked --manifest-path emulator/Cargo.toml --target-dir build/emulator

nvidia: ## Build HIP's libraries for an NVIDIA GPU (only running them needs CUDA).
	cargo build --quiet --release --locked --manifest-path nvidia/Cargo.toml --target-dir build/nvidia

# What cargo builds the modelled GPU with.
AMDGPU_TABLES := build/amdgpu/tables

amdgpu-tables: setup
	$(BIN)/python -m codegen.amdgpu $(AMDGPU_TABLES)

amdgpu: amdgpu-tables ## Build what decodes AMD's machine code, with tables made of AMD's documents.
	cargo build --quiet --release --locked --manifest-path amdgpu/Cargo.toml --target-dir build/amdgpu

planner: ## Build the backend's launch planner, for the kernel tests and `bench`.
	cargo build --quiet --release --locked --manifest-path planner/Cargo.toml --target-dir build/planner

bench-gpu: setup ## Time the kernels on this machine's GPU (BENCH="--only softmax" narrows; CANDLE_ROCM_HIP names libraries).
	$(BIN)/candle-rocm bench $(BENCH)

bench-models: workbench ## Time whole models in patched Candle on this machine's GPU (FEATURES=cuda,rocm: Candle CUDA's backend, too; ROWS="bert 'Q4K, decode'" narrows).
	cargo run --quiet --release --manifest-path benchmarks/models/Cargo.toml --features $(or $(FEATURES),rocm) -- models $(ROWS)

bench-host: setup ## Measure the host's cost of a small operation in patched Candle, on this machine's device (a release build: minutes).
	$(BIN)/python -m benchmarks.overhead $(CANDLE)

rocm-toolchain: setup ## Get ROCm's compiler, headers and libraries from Debian's packages (below build/, no root).
	$(BIN)/python -m codegen.rocm

code-objects: setup rocm-toolchain amdgpu ## Compile the kernels for all AMD architectures (or ARCH), decode them; check specs/hip_api.yaml.
	$(BIN)/candle-rocm kernels build --arch $(or $(ARCH),all)
	cargo test --quiet --release --locked --manifest-path amdgpu/Cargo.toml --target-dir build/amdgpu
	$(BIN)/pytest -n 2 --dist loadfile tests/rocm $(ROCM_LEAVES)

# The cards whose machine code can be executed, and the kernel tests that run on it; without these variables, all.
MACHINE_CODE ?= tests/kernels
MACHINE_CODE_CARDS ?= gfx942 gfx1100 gfx90a gfx1151 gfx1201

machine-code: setup amdgpu planner rocm-toolchain ## Run the kernel tests on what AMD's compiler makes, executed in software (MACHINE_CODE=tests/kernels/test_cast.py).
	@status=0; \
	for card in $(MACHINE_CODE_CARDS); do \
		$(BIN)/pytest -n auto --dist loadfile $(MACHINE_CODE) --machine-code $$card || status=$$?; done; \
	exit $$status

# The cards that ROCr can be given a model of, and the kernel tests that run on AMD's runtime; without these variables, all.
MODEL_TESTS ?= tests/kernels
MODEL_CARDS ?= gfx942 gfx1100 gfx1151 gfx1201

model-tests: $(MODEL_CARDS:%=model-tests-%) ## Run the kernel tests on AMD's own runtime and hipRTC, on modelled cards; -kj2 takes two at once (MODEL_TESTS=tests/kernels/test_cast.py).

model-tests-%: setup amdgpu planner rocm-toolchain
	$(BIN)/python -m codegen.amdgpu.runtime $* -m pytest -n 0 -p no:cacheprovider $(MODEL_TESTS)

kernel-tests: setup emulator nvidia planner ## Test the kernels, the emulated device, and the libraries of HIP on NVIDIA without a GPU.
	cargo test --quiet --release --locked --manifest-path emulator/Cargo.toml --target-dir build/emulator
	cargo test --quiet --release --locked --manifest-path nvidia/Cargo.toml --target-dir build/nvidia
	cargo test --quiet --release --locked --manifest-path planner/Cargo.toml --target-dir build/planner
	$(BIN)/pytest -n auto --dist loadfile tests/emulator tests/hip_on_nvidia tests/kernels $(KERNEL_LEAVES)

backend-tests: setup emulator rocm-toolchain ## Test a patched backend on the device: costs, faults, threads, training.
	$(BIN)/pytest tests/backend $(BACKEND_LEAVES)

tsan: setup emulator ## Look for races in the backend with Rust's ThreadSanitizer (nightly with rust-src).
	PYTHONPATH=tests $(BIN)/python -m backend.thread_sanitizer

# The system's package, where there is no Chromium and this user may install one; without it, the tests are skipped.
CHROMIUM := chromium-headless-shell

BROWSER_TESTS ?= tests/browser

browser-tests: setup ## Test the report in Chromium, on a phone, a desk and a wall (PICTURES=DIR keeps pictures).
	@command -v $(CHROMIUM) || command -v chromium || command -v google-chrome || [ "$$(id -u)" != 0 ] || \
		{ apt-get update -qq && apt-get install -qq --yes --no-install-recommends $(CHROMIUM); } >/dev/null || true
	$(BIN)/pytest $(BROWSER_TESTS)

mutations: setup emulator ## Plant faults in kernels: the kernel tests must find each (MUTATIONS=2 of each family).
	$(BIN)/pytest -n auto tests/mutations

sabotage: setup emulator rocm-toolchain ## Plant small faults in a copy of the repository: the right check must catch each (ACTS=specs narrows).
	PYTHONPATH=tests $(BIN)/python -m sabotage $(ACTS)

attacks: setup ## Run the commands on hostile trees (ATTACKS=2000, starting at ATTACK_SEED=0).
	$(BIN)/pytest -n auto tests/attacks

mutants: setup emulator build/tools/bin/cargo-mutants ## Run mutants of the Rust backend (MUTANTS=400 SEED=7 SHARD=1/4 DIFF=commit ONLY='*/matmul.rs' JOBS=2).
	PYTHONPATH=tests $(BIN)/python -m mutants $(CANDLE) --jobs $(or $(JOBS),1) --seed $(or $(SEED),1) \
		--shard $(or $(SHARD),1/1) $(if $(MUTANTS),--count $(MUTANTS)) $(if $(DIFF),--diff $(DIFF)) $(if $(ONLY),--only '$(ONLY)')

mutants-emulator: setup emulator build/tools/bin/cargo-mutants ## Run mutants of the emulated device (same options).
	PYTHONPATH=tests $(BIN)/python -m mutants --emulator --jobs $(or $(JOBS),1) --seed $(or $(SEED),1) \
		--shard $(or $(SHARD),1/1) $(if $(MUTANTS),--count $(MUTANTS))

mutants-planner: setup emulator build/tools/bin/cargo-mutants ## Run mutants of the launch planner (same options), with unit and kernel tests.
	PYTHONPATH=tests $(BIN)/python -m mutants --planner --jobs $(or $(JOBS),1) --seed $(or $(SEED),1) \
		--shard $(or $(SHARD),1/1) $(if $(MUTANTS),--count $(MUTANTS)) $(if $(ONLY),--only '$(ONLY)')

build/tools/bin/cargo-mutants:
	cargo install --quiet --locked cargo-mutants --version $(CARGO_MUTANTS) --root build/tools

releases: setup emulator ## Patch real Candle releases; build and test them as cover.txt lists (RELEASES="0.9.1 0.11.1": only these).
	$(BIN)/pytest -raP tests/releases --ignore tests/releases/newest $(RELEASE_LEAVES)

newest-release: setup emulator amdgpu rocm-toolchain ## Run all tests of the newest release on the device, and programs outside of it.
	$(BIN)/pytest -raP tests/releases/newest $(RELEASE_LEAVES)

docs: setup ## Build the documents as a site (build/site; `python3 -m http.server -d build/site` shows it, with its search).
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: setup amdgpu-tables ## Check Python sources, imports and specs; check the Rust of emulator/, nvidia/, amdgpu/ and planner/ and its dependencies.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/candle-rocm spec lint
	$(BIN)/pytest -q tests/unit/test_dependencies.py
	cargo fmt --all --check --manifest-path emulator/Cargo.toml
	cargo clippy --quiet --release --locked --all-targets --manifest-path emulator/Cargo.toml --target-dir build/emulator -- -D warnings
	cargo fmt --all --check --manifest-path nvidia/Cargo.toml
	cargo clippy --quiet --release --locked --all-targets --manifest-path nvidia/Cargo.toml --target-dir build/nvidia -- -D warnings
	cargo fmt --all --check --manifest-path amdgpu/Cargo.toml
	cargo clippy --quiet --release --locked --all-targets --manifest-path amdgpu/Cargo.toml --target-dir build/amdgpu -- -D warnings
	cargo fmt --all --check --manifest-path planner/Cargo.toml
	cargo clippy --quiet --release --locked --all-targets --manifest-path planner/Cargo.toml --target-dir build/planner -- -D warnings

format: setup ## Format the Python sources.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

regen: setup ## Regenerate the committed generated files (goldens, generated/, docs).
	$(BIN)/pytest -q tests/golden tests/rocm tests/releases/test_expected_names.py \
		tests/releases/test_sites.py tests/releases/test_cuda_kernels.py tests/releases/test_parity.py \
		tests/releases/test_distinct_texts.py \
		--update-goldens

acceptance: setup ## After `make test`: record its results (docs/acceptance-record.json, docs/acceptance.md).
	$(BIN)/python -m codegen.verify.record $(CANDLE_ROCM_WORK)

bench: setup ## Time the generator on CANDLE, and Candle's benchmarks on CPU and emulated device (GROUPS="affine matmul" narrows).
	$(BIN)/python -m benchmarks.generator $(CANDLE)
	$(BIN)/python -m benchmarks.candle $(CANDLE) $(GROUPS)

clean: ## Remove the virtual environment and build output.
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis generated/[0-9]*
