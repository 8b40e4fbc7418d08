# The commands of this repository. Each installs what it lacks, on Debian and Ubuntu.

SHELL := /bin/bash
CARGO ?= cargo
export PATH := $(HOME)/.cargo/bin:$(PATH)

.PHONY: help build demo test chart image soak lint docs generated deny bench fuzz install-build install-test

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install-build: ## what building needs
	@tests/install build

install-test: ## what the tests need besides
	@tests/install build lab image chart cluster

build: install-build ## the binary
	$(CARGO) build --locked

demo: build ## the main job, on recorded hosts
	@examples/demo target/debug/egress-plan

test: install-test ## every test, the real-host suite included
	@tests/run

chart: build ## the chart and the units for systemd, without a cluster
	@tests/install chart
	@tests/chart/run target/debug/egress-plan

image: build ## the files of the image, put together and tried
	@tests/image/run target/debug/egress-plan

soak: install-test ## the long form of those tests that have one
	@tests/soak

lint: install-build ## formatting, clippy, licences
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --no-default-features --lib --bins -- -D warnings

deny: install-build ## licences, sources and duplicates of the dependencies
	@.ci/deny

docs: install-build ## the library's documentation
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items

generated: build ## that generated files are current
	target/debug/egress-plan schema --check docs/schema
	charts/values-table --check
	target/debug/egress-plan crd | diff charts/egress-plan/crds/egress-plan.yaml -

fuzz: install-build ## the parsers on random input, FUZZ_SECONDS each
	@fuzz/run

bench: install-test ## the figures that the README promises
	$(CARGO) build --locked --release
	@tests/realhost/bench
