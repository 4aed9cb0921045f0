# One entry for every task. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
# Seeds of `make storm`, seconds per target of `make fuzz`, output folder of `make pairs` and `make bench`.
SEEDS ?= 200
FROM ?= 0
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.PHONY: help
help: ## list the tasks
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# ── what a merge needs ──────────────────────────────────────────────────────────────────────────

.PHONY: test
test: setup format layers clippy doc tests fuzz-smoke tools package deny ## everything that the stock toolchain can check

# Two lanes: what waits for programs of others leaves the processors to what compiles.
.PHONY: test-all
test-all: setup-all ## what needs more, after `make test`: root, network namespaces, a browser, servers of others, Python
	$(MAKE) --jobs 2 --output-sync=target test-waiting test-compiling

.PHONY: test-waiting
test-waiting:
	$(MAKE) tests-all imd wfdb table3 package-test python

.PHONY: test-compiling
test-compiling:
	$(MAKE) test-qlog test-wasm portable

.PHONY: setup
setup: ## add what the stock toolchain may lack (clippy, rustfmt), and what makes films for the video tests
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@tools/players ffmpeg

.PHONY: setup-all
setup-all: ## add what `make test-all` needs: a browser, an ssh server, rsync, PostgreSQL, nft, Prometheus, npm, jsonschema, tools for Debian packages, the library for WebAssembly
	@tools/players chromium sshd rsync postgresql nft debootstrap lintian prometheus npm jsonschema
	@rustup target add wasm32-unknown-unknown >/dev/null 2>&1 || echo 'setup-all: no library for wasm32-unknown-unknown; the example of a module is not compiled'

.PHONY: format
format: ## check the format (`cargo fmt --all` repairs it)
	$(CARGO) fmt --all -- --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml -- --check
	$(CARGO) fmt --manifest-path python/Cargo.toml -- --check
	rustfmt --edition 2024 --check tools/check_layers.rs

.PHONY: layers
layers: ## check that every crate keeps to its layer
	tools/check-layers --self-test
	tools/check-layers

.PHONY: clippy
clippy: ## lints, warnings are errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

.PHONY: doc
doc: ## rustdoc, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

# Every file of integration tests by name: those of `make test-all` are left out, and no other way leaves the features of
# the build as they are.
TEST_FILES := $(notdir $(basename $(wildcard crates/*/tests/*.rs apps/*/tests/*.rs)))
TEST_FILES += $(notdir $(patsubst %/main.rs,%,$(wildcard crates/*/tests/*/main.rs apps/*/tests/*/main.rs)))
TESTS := $(addprefix --test ,$(filter-out browser nat netns recipes start tunnel,$(sort $(TEST_FILES))))

# Tests that take long wait for players and other processes more than they compute. `clippy` has built the examples.
.PHONY: tests
tests: export RUST_TEST_THREADS ?= 4
tests: ## unit, property, simulation, live and doc tests
	$(CARGO) test --workspace --locked --lib --bins $(TESTS) -- --skip browser::
	$(CARGO) test --workspace --locked --doc

.PHONY: tests-all
tests-all: export RUST_TEST_THREADS ?= 4
tests-all: ## tests between network namespaces (root), with programs of others, and in a browser
	$(CARGO) test --workspace --locked --test browser --test nat --test netns --test recipes --test start --test tunnel
	$(CARGO) test --workspace --locked --test live browser::

# Its features are not those of the other tests: the QUIC library and what is above it are compiled again, up to the host.
.PHONY: test-qlog
test-qlog: ## traces of channels: build with the feature `qlog`, and read them back
	$(CARGO) clippy -p anabranch-net -p anabranch --features anabranch-net/qlog,anabranch/qlog --all-targets --locked -- -D warnings
	$(CARGO) test -p anabranch-net --features qlog --locked --lib --test integration qlog

# Packages the program that the tests have built: what is built of `make dist` differs in the compiler's settings only.
.PHONY: package-test
package-test: ## check the archive, the Debian package (in a clean root, as root), and the bill of materials
	tools/package-test

.PHONY: portable
portable: ## check that what is portable compiles for macOS and Windows
	tools/portable

# Of the command, no more than modules need; in a folder of its own, as the program of that name in target/debug is the one that
# other tests run and package at the same time.
.PHONY: test-wasm
test-wasm: ## operators as WebAssembly modules: build with the feature `wasm`, with hostile modules
	$(CARGO) clippy -p anabranch-process -p anabranch-processing --features wasm --all-targets --locked -- -D warnings
	$(CARGO) clippy -p anabranch-cli --no-default-features --features wasm --bins --test modules --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc -p anabranch-process --features wasm --no-deps --locked
	$(CARGO) test -p anabranch-process --features wasm --locked
	$(CARGO) test -p anabranch-processing -p anabranch-cli --no-default-features --features wasm --locked --lib --test modules --target-dir target/modules

# The fuzz targets as plain functions: compiled, their regressions replayed, and each fed for a second. Third-party
# crates are those that `clippy` and `tests` have built.
.PHONY: fuzz-smoke
fuzz-smoke: export CARGO_TARGET_DIR ?= $(CURDIR)/target
fuzz-smoke: ## build the fuzz workspace on stable, replay its regressions, feed every target for a second
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --no-default-features --all-targets --locked -- -D warnings
	$(CARGO) test --manifest-path fuzz/Cargo.toml --no-default-features --locked

# Nothing of tools/bulk and tools/abuse is shipped or tested; they must compile. The extension module of the Python library is
# tested by `make python`; it compiles without a Python, too.
.PHONY: tools
tools: export CARGO_TARGET_DIR ?= $(CURDIR)/target
tools: ## check that what stands apart of the workspace compiles
	$(CARGO) check --manifest-path tools/bulk/Cargo.toml --locked
	$(CARGO) clippy --manifest-path tools/abuse/Cargo.toml --locked -- -D warnings
	PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 $(CARGO) clippy --manifest-path python/Cargo.toml --all-targets --locked -- -D warnings

# The wheel has the program that the tests have built. mypy, Sphinx, NumPy and others come from a registry.
.PHONY: python
python: ## build the Python library and check it in a fresh virtual environment: tests, types, reference, examples
	tools/python test

# imdclient and MDAnalysis come from a registry.
.PHONY: imd
imd: ## have imdclient and MDAnalysis, in a virtual environment, watch a simulation through a source and a viewer
	tools/imd

# The package wfdb comes from a registry.
.PHONY: wfdb
wfdb: ## have the Python package wfdb, in a virtual environment, read records that the hospital writes
	tools/wfdb

# Only that it works: rates are for a quiet machine, and for the release programs.
.PHONY: table3
table3: ## the live Table III with its calculation, one short run of what the tests have built, and the tests of its figures
	cd tools && python3 -B -m unittest table3_live.test_figures
	tools/programs
	tools/table3-live --runs 1 --seconds 15 --before 5 --table --binary "$${CARGO_TARGET_DIR:-target}/debug/anabranch" \
	  --lab "$${CARGO_TARGET_DIR:-target}/debug/anabranch-lab"

# All but the lab and the simulator, which nothing that is published depends on. Nothing is built here: `clippy` has compiled it.
.PHONY: package
package: ## check that the public crates can be packaged: their files, versions and dependencies
	$(CARGO) package --quiet --workspace --exclude anabranch-lab --exclude anabranch-sim --no-verify --locked --allow-dirty

.PHONY: deny
deny: ## licences, bans, sources, advisories of dependencies, where cargo-deny is installed
	@tools/deny

# ── releases ────────────────────────────────────────────────────────────────────────────────────

.PHONY: dist
dist: ## what is released, in target/artifacts: archives, Debian package, bills of materials, sums (several minutes)
	@tools/players musl
	tools/dist

.PHONY: dist-check
dist-check: ## as `make dist`, twice in two folders: fails unless the bytes are the same, and checks the files
	@tools/players musl
	tools/dist --check
	tools/package-test --from target/artifacts

.PHONY: wheel
wheel: ## the Python library with the programs in it, in target/wheels (several minutes; needs Python 3.11); PLATFORM=aarch64
	tools/python wheel

# ── what it can do ──────────────────────────────────────────────────────────────────────────────

.PHONY: build
build: ## the program, optimised: target/release/anabranch
	$(CARGO) build --release --locked -p anabranch-cli

.PHONY: lab
lab: ## the experiments, optimised: target/release/anabranch-lab, which `anabranch lab` starts
	$(CARGO) build --release --locked -p anabranch-lab

# Without `top`, which no demonstration uses and which takes a while to compile.
DEMO := -p anabranch-cli --no-default-features --features clinic,console,demo,process,records,video,s3,visualise

.PHONY: demo-build
demo-build:
	$(CARGO) build --release --locked $(DEMO)

.PHONY: demo
demo: demo-build ## streams and a file over three emulated paths, one of which fails (about 20 s, no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo

.PHONY: demo-console
demo-console: demo-build ## the console of a node that sends over three emulated paths, one of which fails now and then; until Ctrl-C (no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo --console

.PHONY: demo-overlay
demo-overlay: demo-build ## four nodes on emulated links, a transfer over two paths, a relay that is killed (about a minute, no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo-overlay

.PHONY: demo-video
demo-video: demo-build ## a film in two flows over a pipe that loses packets, to a player (about 10 s, no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo-video

.PHONY: demo-gateway
demo-gateway: demo-build ## a download and database queries through forwards over three emulated paths, one is cut (about 20 s, no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo-gateway

.PHONY: demo-process
demo-process: demo-build ## a node on the way reduces the frames of a simulation to what two slow paths carry (about 30 s, no root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo-process

# Fields of ERA-Interim for `make demo-records`: eraint_uvz.nc of the tutorial data of xarray. Without it, a set is generated.
FIELDS ?= $(wildcard ../shared/data/media/eraint_uvz.nc)

.PHONY: demo-records
demo-records: demo-build ## records of three components with promises, watched over three emulated paths, one is cut (about 35 s, no root); FIELDS=file
	$(CARGO) run --release --locked -q $(DEMO) -- demo-records $(if $(FIELDS),--fields '$(FIELDS)')

# A molecule for `make demo-visualise`: files PSF and DCD. Without them, one is generated.
.PHONY: demo-visualise
demo-visualise: demo-build ## a molecule shown over three emulated paths, atoms and bonds in view promised (about 50 s, no root); PSF=file DCD=file
	$(CARGO) run --release --locked -q $(DEMO) -- demo-visualise $(if $(PSF),--topology '$(PSF)' --trajectory '$(DCD)')

# A record for `make demo-clinic`: the header of a WFDB record, such as s0010_re.hea of PTB. Without it, one is generated.
EKG ?= $(wildcard ../shared/data/media/s0010_re.hea)

.PHONY: demo-clinic
demo-clinic: demo-build ## an ambulance over six emulated cellular paths, one is cut, one returns (about 60 s, no root); EKG=file, HTTP=127.0.0.1:0 for the page
	$(CARGO) run --release --locked -q $(DEMO) -- demo-clinic $(if $(EKG),--ekg '$(EKG)') $(if $(HTTP),--http '$(HTTP)' --before 15)

.PHONY: demo-tunnel
demo-tunnel: demo-build ## downloads and small messages through a tunnel over three emulated paths, one is cut (about 15 s, root)
	$(CARGO) run --release --locked -q $(DEMO) -- demo-tunnel

.PHONY: pairs
pairs: lab ## the path pairs of docs/results/performance.md in virtual time, as JSON
	$(CARGO) run --release --locked -q -p anabranch-lab -- run pairs --json

.PHONY: report
report: lab ## every experiment of the lab on one page, lab-report/report.html (several minutes)
	$(CARGO) run --release --locked -q -p anabranch-lab -- report

.PHONY: bench
bench: ## benchmarks
	$(CARGO) bench --workspace --locked

.PHONY: bulk
bulk: ## one bulk transfer beside noq's stack, between two namespaces (root)
	tools/bulk-compare

.PHONY: soak
soak: ## memory of both sides over a transfer of 10 GiB
	tools/soak

# A long run goes on where it was interrupted: seeds that stand in ROWS are not run again. FROM is the first seed.
.PHONY: storm
storm: ## SEEDS random worlds with faults, checked for what must hold in all of them; ROWS=file to go on later
	$(CARGO) run --release --locked -p anabranch-sim --example storm -- \
	  --seeds $(SEEDS) --from $(FROM) $(if $(ROWS),--rows $(ROWS))

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS, with what earlier runs found; without cargo-fuzz and nightly, random inputs on stable
	@if $(CARGO) +nightly fuzz --version >/dev/null 2>&1; then \
	  SLICE=$(FUZZ_SECONDS) tools/fuzz $$(($(FUZZ_SECONDS) * $(words $(FUZZ_TARGETS)))); \
	else \
	  echo "no cargo-fuzz with a nightly toolchain (cargo install cargo-fuzz; rustup toolchain install nightly);"; \
	  echo "the same properties get random inputs on the stable toolchain instead"; \
	  FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO) test --release --manifest-path fuzz/Cargo.toml --no-default-features; \
	fi
