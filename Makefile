PYTHON ?= python3
VENV := .venv/bin
CODE := console brokercore mysqlwire analytics launcher gantry_cli tests
RATE ?=
PYTEST_ARGS ?=
# Django's own checks run on a home of their own, with secrets drawn for them.
CHECK_HOME := $(CURDIR)/.pytest_cache/home

# Images of Python set this. Each process would compile Django and all else anew, which takes three times as long as to
# start, and a run of the tests starts hundreds.
unexport PYTHONDONTWRITEBYTECODE

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help up traffic backup restore home-fixture check checks test test-unit test-fast test-postgres lint fmt types bench bench-adoption bench-broker bench-console bench-fairness bench-inflow bench-pipelines bench-scale bench-smq bench-soak bench-sql chaos chaos-jobs chaos-inflow pictures protocol clean runtime tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: runtime ## start everything; Ctrl-C stops it
	@exec $(VENV)/python -m launcher up

traffic: runtime ## replay the flights into a running installation, as messages and changed rows (RATE=50 a second)
	@exec $(VENV)/python -m launcher run manage.py traffic $(if $(RATE),--rate $(RATE))

backup: runtime ## back up this installation into one new archive, also while it runs (FILE=…tar.gz)
	@exec $(VENV)/python -m launcher backup $(or $(FILE),gantry-$(shell date -u +%Y%m%dT%H%M%SZ).tar.gz)

restore: runtime ## restore the installation in an archive into an empty home (FILE=…tar.gz)
	@exec $(VENV)/python -m launcher restore $(FILE)

home-fixture: tools ## pack a home made by this commit for tests/homes (COMMIT=… for another)
	@exec $(VENV)/python -m tests.homes.make $(or $(COMMIT),$(shell git rev-parse --short HEAD))

test: tools ## check and test everything (PYTEST_ARGS="-k name" for a part)
	@$(if $(PYTEST_ARGS),$(MAKE) -j2 --output-sync=target types checks)
	@$(VENV)/python -m $(if $(PYTEST_ARGS),pytest $(PYTEST_ARGS),tests.suites)

checks: lint
	@$(VENV)/lint-imports
	@$(VENV)/python -m launcher secrets $(CHECK_HOME)/secrets
	@GANTRY_HOME=$(CHECK_HOME) $(VENV)/python manage.py check --fail-level WARNING
	@GANTRY_HOME=$(CHECK_HOME) GANTRY_HTTPS=true $(VENV)/python manage.py check --deploy --fail-level WARNING
	@GANTRY_HOME=$(CHECK_HOME) $(VENV)/python manage.py makemigrations --check --dry-run

check: tools ## lint, types and the tests that need no other process (a minute and a half)
	@$(MAKE) -j2 --output-sync=target types test-unit

test-unit: lint
	@$(VENV)/lint-imports
	@$(VENV)/python -m pytest --quiet -p no:cacheprovider -m unit $(PYTEST_ARGS)

test-fast: tools ## what needs no more than a database and a broker (six minutes)
	@$(VENV)/python -m tests.suites --fast

test-postgres: tools ## the console's tests on a throwaway PostgreSQL (part of make test too)
	@$(VENV)/python -m tests.support.postgres

lint: tools ## ruff: rules and format; bandit
	@$(VENV)/ruff check
	@$(VENV)/ruff format --check
	@$(VENV)/bandit --quiet --configfile pyproject.toml --recursive $(filter-out tests,$(CODE))

fmt: tools ## fix what ruff can fix
	@$(VENV)/ruff check --fix
	@$(VENV)/ruff format

types: tools ## mypy, strict
	@$(VENV)/mypy $(CODE)

bench: tools ## rates and latencies beside the published figures
	@exec $(VENV)/python -m tests.bench

bench-broker: tools ## the broker beside Apache RocketMQ, 5 rounds (about 20 minutes; ROUNDS=1 for one)
	@exec $(VENV)/python -m tests.bench broker --rounds $(or $(ROUNDS),5)

bench-smq: tools ## the queue service beside ElasticMQ and moto, 3 rounds (10 minutes; ROUNDS=1 for one)
	@exec $(VENV)/python -m tests.bench smq --rounds $(or $(ROUNDS),3)

bench-soak: tools ## an hour at 70 % of the broker's highest rate: latency and memory (MINUTES=10 for less)
	@exec $(VENV)/python -m tests.bench soak --minutes $(or $(MINUTES),60)

bench-console: tools ## the console at 200 accounts, 10,000 topics and 5,000 groups, beside the limits
	@exec $(VENV)/python -m tests.bench console

bench-adoption: tools ## 10,000 names adopted in one go, by a worker that is killed too, embedded and Apache (7 minutes)
	@exec $(VENV)/python -m tests.bench adoption

bench-scale: tools ## 20,000 topics and 10,000 groups of one cluster, embedded and Apache: sampling and every list (7 minutes)
	@exec $(VENV)/python -m tests.bench scale

bench-sql: tools ## async SQL: latencies, overhead over bare Spark, fairness, large results, recovery (5 minutes)
	@exec $(VENV)/python -m tests.bench sql

bench-pipelines: tools ## SQL jobs beside bare loops: rates, latency, start, memory, 3 rounds (6 minutes; ROUNDS=1 for one)
	@exec $(VENV)/python -m tests.bench pipelines --rounds $(or $(ROUNDS),3)

bench-inflow: tools ## changes into topics beside capture libraries alone and Debezium: rates, delay, memory, 3 rounds (ROUNDS=1 for one)
	@exec $(VENV)/python -m tests.bench inflow --rounds $(or $(ROUNDS),3)

bench-fairness: tools ## what one account notices while another does its worst at each door (10 minutes)
	@exec $(VENV)/python -m tests.bench fairness

pictures: tools ## pictures of every kind of page into screenshots/, with a running copy and its traffic (15 minutes)
	@exec $(VENV)/python -m tests.pictures

chaos: tools ## the whole product under load while its processes are killed (MINUTES=30; SEED=… for the same again)
	@exec $(VENV)/python -m tests.chaos --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED))

chaos-jobs: tools ## a SQL job while its processes are killed (half an hour; KILLS=60, MESSAGES=100000; SEED=… for the same again)
	@exec $(VENV)/python -m tests.chaos.jobs --kills $(or $(KILLS),60) --messages $(or $(MESSAGES),100000) $(if $(SEED),--seed $(SEED))

chaos-inflow: tools ## changes of two databases into topics while all on their way is killed (half an hour; KILLS=40, CHANGES=200000, SEED=…)
	@exec $(VENV)/python -m tests.chaos.inflow --kills $(or $(KILLS),40) --changes $(or $(CHANGES),200000) $(if $(SEED),--seed $(SEED))

protocol: tools ## make the modules of brokercore/protocol/grpc/messaging.proto anew
	@$(VENV)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. brokercore/protocol/grpc/messaging.proto

clean: ## remove caches, never data or .venv
	@find . -name __pycache__ -not -path './.venv/*' -not -path './var/*' -prune -exec rm -rf {} +
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results

runtime:
	@$(PYTHON) launcher/bootstrap.py

tools:
	@$(PYTHON) launcher/bootstrap.py --dev
