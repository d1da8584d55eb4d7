"""Every folder with a kustomization can be built."""

from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.config.kustomize import (
    KUSTOMIZATIONS,
    WEBHOOK_FOLDERS,
    build,
    needs_kustomize,
    prepare,
    the,
)
from tests.config.shipped import FOLDER, IMAGE, Json, documents, name_of, yaml_files
from tests.processes import ROOT

_FILES: Final = [file for file in yaml_files() if file.name == "kustomization.yaml"]

_CONFIGURATIONS: Final = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.mark.parametrize("file", _FILES, ids=name_of)
def test_every_file_that_is_named_exists(file: Path) -> None:
    (kustomization,) = documents(file)
    named = [*kustomization.get("resources", ()), *kustomization.get("components", ())]
    for generator in ("configMapGenerator", "secretGenerator"):
        for each in kustomization.get(generator, ()):
            named += each.get("files", ())
    named += [each["path"] for each in kustomization.get("patches", ()) if "path" in each]
    for name in named:
        if "generated" in Path(name).parts:
            continue  # by the script beside it
        target = file.parent / name
        assert target.exists(), name
        assert target.is_file() or (target / "kustomization.yaml").is_file(), name


@pytest.mark.parametrize("file", _FILES, ids=name_of)
def test_every_yaml_beside_a_kustomization_is_named_in_it(file: Path) -> None:
    """Else it is shipped and never applied."""
    text = file.read_text()
    for sibling in file.parent.glob("*.yaml"):
        assert sibling == file or sibling.name in text


@needs_kustomize
@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name_of)
def test_kubectl_builds_it(folder: Path, prepared: Path) -> None:
    built = build(prepared / folder.relative_to(FOLDER))
    identities = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in built
    ]
    assert len(identities) == len(set(identities))


_VARIANTS: Final = pytest.mark.parametrize(
    "variant",
    [f"{way}-plugin{marked}" for way in ("beside", "instead-of") for marked in ("", "-marked")],
)


@needs_kustomize
@_VARIANTS
def test_the_second_scheduler_gets_its_configuration(variant: str) -> None:
    built = build(FOLDER / "second-scheduler" / variant)
    (config,) = (each for each in built if each["kind"] == "ConfigMap")
    shipped = (FOLDER / "second-scheduler" / variant / "kube-scheduler.yaml").read_text()
    assert config["data"]["kube-scheduler.yaml"] == shipped
    assert "kubeconfig.yaml" in config["data"]
    (deployment,) = (each for each in built if each["kind"] == "Deployment")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert volumes == [{"name": "config", "configMap": {"name": config["metadata"]["name"]}}]


@needs_kustomize
@_VARIANTS
def test_the_second_scheduler_may_hold_the_lease_that_its_configuration_names(variant: str) -> None:
    """As printed: kustomize writes new names into a Role's resourceNames, whatever they are of."""
    objects = build(FOLDER / "second-scheduler" / variant)
    config = yaml.safe_load(the("ConfigMap", objects)["data"]["kube-scheduler.yaml"])
    lease = config["leaderElection"]
    allowed = {
        (verb, name)
        for role in objects
        if role["kind"] == "Role" and role["metadata"]["namespace"] == lease["resourceNamespace"]
        for rule in role["rules"]
        if "leases" in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert allowed == {
        ("create", ""),
        ("get", lease["resourceName"]),
        ("update", lease["resourceName"]),
    }


@needs_kustomize
@_VARIANTS
def test_only_pods_of_the_second_scheduler_are_marked_and_only_for_one_that_ignores_the_mark(
    variant: str,
) -> None:
    objects = build(FOLDER / "second-scheduler" / variant)
    config = yaml.safe_load(the("ConfigMap", objects)["data"]["kube-scheduler.yaml"])
    policies = [each for each in objects if each["kind"] == "MutatingAdmissionPolicy"]
    bindings = [each for each in objects if each["kind"] == "MutatingAdmissionPolicyBinding"]
    if not variant.endswith("-marked"):
        assert not [*policies, *bindings]
        assert "managedResources" not in config["extenders"][0]
        return
    (policy,), (binding,), (profile,) = policies, bindings, config["profiles"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    # Not the name in policies/mark, which may be applied beside it for all schedulers.
    (shipped,) = (
        each for each in build(FOLDER / "policies" / "mark") if each["kind"] == policy["kind"]
    )
    assert policy["metadata"]["name"] != shipped["metadata"]["name"]
    conditions = [each["expression"] for each in policy["spec"]["matchConditions"]]
    assert conditions[:-1] == [each["expression"] for each in shipped["spec"]["matchConditions"]]
    assert conditions[-1] == f'object.spec.schedulerName == "{profile["schedulerName"]}"'


def _generated(folder: Path) -> set[str]:
    """Names that kustomize puts a hash behind."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    return {
        each["name"]
        for generator in ("configMapGenerator", "secretGenerator")
        for each in kustomization.get(generator, ())
        if not each.get("options", {}).get("disableNameSuffixHash")
    }


def test_no_rule_names_an_object_as_a_generated_one_is_called() -> None:
    """Else kustomize renames it there too, though it is a Lease or something else that is meant."""
    generated = {name for file in _FILES for name in _generated(file.parent)}
    assert generated
    named = {
        name
        for file in yaml_files()
        for document in documents(file)
        if isinstance(document, dict) and document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
        for name in rule.get("resourceNames", ())
    }
    assert named
    assert not generated & named


@needs_kustomize
@pytest.mark.parametrize("folder", WEBHOOK_FOLDERS, ids=name_of)
def test_the_webhook_is_there_before_anything_waits_for_it(folder: Path, prepared: Path) -> None:
    """Two steps: kubectl creates the configurations also when the Deployment's half has failed."""
    first = build(prepared / folder.relative_to(FOLDER))
    second = build(prepared / folder.relative_to(FOLDER) / "configurations")
    assert "Deployment" in {each["kind"] for each in first}
    assert not _CONFIGURATIONS & {each["kind"] for each in first}
    assert {each["kind"] for each in second} == _CONFIGURATIONS
    deployment, service = the("Deployment", first), _serving(first)
    flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    names = {each["metadata"]["name"] for each in second}
    assert ("--mark-pods" in flags) is folder.name.endswith("-marked")
    assert ("--merge=tolerations" in flags) is ("-instead-of-plugin" in folder.name)
    assert ("--default-class" in flags) is ("zzz-runtimeclass-extender-default-class" in names)
    for configuration in second:
        (webhook,) = configuration["webhooks"]
        called = webhook["clientConfig"]["service"]
        assert called["name"] == service["metadata"]["name"]
        assert called["namespace"] == service["metadata"]["namespace"]
        trusted = "caBundle" in webhook["clientConfig"]
        injected = "cert-manager.io/inject-ca-from" in configuration["metadata"].get(
            "annotations", {}
        )
        assert (trusted, injected) == (
            folder.name.startswith("openssl"),
            folder.name.startswith("cert-manager"),
        )


def _serving(objects: list[Json]) -> Json:
    (found,) = (
        each
        for each in objects
        if each["kind"] == "Service" and each["spec"].get("clusterIP") != "None"
    )
    return found


def test_the_webhook_has_ten_folders() -> None:
    assert {folder.name for folder in WEBHOOK_FOLDERS} == {
        f"{certificate}{purpose}"
        for certificate in ("cert-manager", "openssl")
        for purpose in (
            "",
            "-instead-of-plugin",
            "-default-class",
            "-marked",
            "-instead-of-plugin-marked",
        )
    }
    words = (FOLDER / "webhook" / "base" / "kustomization.yaml").read_text()
    assert "one of the ten folders" in words


@needs_kustomize
@pytest.mark.parametrize(
    "folder", ["second-scheduler/beside-plugin", "remote/base", "remote/cert-manager"]
)
def test_an_overlay_can_name_another_image(folder: str, prepared: Path) -> None:
    overlay = prepared / "overlay" / folder.replace("/", "-")
    overlay.mkdir(parents=True)
    (overlay / "kustomization.yaml").write_text(
        f"resources: [../../{folder}]\n"
        f"images: [{{name: {IMAGE}, newName: mirror.example/extender, newTag: '9'}}]\n"
    )
    text = yaml.safe_dump_all(build(overlay))
    assert "mirror.example/extender:9" in text
    assert IMAGE not in text


def test_no_file_names_a_registry_but_the_placeholder_and_upstream() -> None:
    for file in (*yaml_files(), ROOT / "Dockerfile"):
        for line in file.read_text().splitlines():
            key, _, value = line.strip().lstrip("- ").partition(": ")
            if key == "image" and "/" in value:
                assert value.startswith((f"{IMAGE}:", "registry.k8s.io/kube-scheduler:")), line
