# Only calls the two scripts, which need no make.
.PHONY: run test docs help

help:
	@echo "make run   start everything on this machine (./run)"
	@echo "make test  checks and tests (./test)"
	@echo "make docs  the documentation site, into .tools/docs (docs/build)"
	@echo "make help  this text"

run:
	@./run

test:
	@./test

docs:
	@docs/build
