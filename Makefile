# The two commands: `make run` tries vtopo on this machine, `make test` runs all checks.
# Everything else is `cargo` or `cargo xtask`.

# A Rust that rustup has just installed is found without a new login.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: help run test setup setup-test

help:
	@echo 'make run          install what is missing, build, and try vtopo on this machine'
	@echo 'make test         install what tests need, and run all checks'
	@echo 'make setup        only install what building and running need'
	@echo 'cargo xtask       list the chores: ci, tidy, golden, bench, optimum, peers, placement, fuzz, dist'

run: setup
	@scripts/run.sh

test: setup-test
	@cargo xtask ci

setup:
	@scripts/setup.sh

setup-test: setup
	@scripts/setup.sh test
