"""The components that let any folder of the webhook give pods the class that fits."""

import os
from pathlib import Path

import pytest
import yaml

from tests.config.kustomize import build, needs_kustomize, prepare, the


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An operator's own folders, as docs/runtimes.md has them."""
    webhook = prepare(tmp_path) / "webhook"
    for name, resource, components in (
        ("own", "../openssl", ["../components/fit"]),
        (
            "own/configurations",
            "../../openssl/configurations",
            ["../../components/fit-configurations"],
        ),
    ):
        folder = webhook / name
        folder.mkdir(parents=True)
        kustomization = {"resources": [resource], "components": components}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return webhook / "own"


@needs_kustomize
def test_the_webhook_fits_and_may_read_what_it_needs_for_it(own: Path) -> None:
    objects = build(own)
    spec = the("Deployment", objects)["spec"]["template"]["spec"]
    assert spec["containers"][0]["args"][-1] == "--fit"
    rules = the("ClusterRole", objects)["rules"]
    read = {each for rule in rules for each in rule["resources"] if "watch" in rule["verbs"]}
    assert read == {"runtimeclasses", "nodes", "namespaces"}


@needs_kustomize
def test_the_webhook_is_asked_about_pods_that_ask_for_isolation(own: Path) -> None:
    (webhook,) = the("MutatingWebhookConfiguration", build(own / "configurations"))["webhooks"]
    (condition,) = webhook["matchConditions"]
    assert (
        "'runtimeclass-extender/isolation' in object.metadata.annotations"
        in (condition["expression"])
    )
    assert condition["expression"].startswith("has(object.spec.runtimeClassName) ||")
    assert os.linesep not in condition["expression"]
