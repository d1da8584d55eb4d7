"""Every shipped YAML is what Kubernetes 1.30 to 1.36 takes."""

from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml

from tests.config.shipped import (
    FOLDER,
    documents,
    every_document,
    every_object,
    name_of,
    yaml_files,
)

VERSIONS: Final = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")

#: Checked elsewhere: by kustomize, by kube-scheduler, by kubeadm, by whoever reads a kubeconfig.
NO_OBJECTS: Final = {
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
    ("kustomize.config.k8s.io/v1alpha1", "Component"),
    ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"),
    ("v1", "Config"),
}

#: kind → fields of the spec that cert-manager's schema has and these files use.
CERT_MANAGER: Final = {
    "Issuer": {"selfSigned", "ca"},
    "Certificate": {
        "commonName",
        "dnsNames",
        "duration",
        "isCA",
        "issuerRef",
        "privateKey",
        "secretName",
        "usages",
    },
}

_OBJECTS: Final = [
    pytest.param(document, id=f"{name_of(file)} {document['kind']} {index}")
    for index, (file, document) in enumerate(every_object())
    if (document["apiVersion"], document["kind"]) not in NO_OBJECTS
    # cert-manager's kinds are in no Kubernetes schema; see below.
    and not document["apiVersion"].startswith("cert-manager.io/")
]


# 1.30 knows nothing yet of the feature userNamespaces of a runtime handler.
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_the_sample_cluster_can_be_applied_to_a_real_one(version: str) -> None:
    files = sorted((FOLDER / "samples" / "cluster").glob("*.yaml"))
    samples = [document for file in files for document in documents(file)]
    assert {each["kind"] for each in samples} == {"Node", "RuntimeClass"}
    for each in samples:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("file", yaml_files(), ids=name_of)
def test_a_file_is_yaml_without_duplicate_keys(file: Path) -> None:
    class Strict(yaml.SafeLoader):
        pass

    def mapping(loader: Strict, node: yaml.MappingNode) -> object:
        keys = [loader.construct_object(key) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key stands twice: {keys}"
        return loader.construct_mapping(node, deep=True)

    Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    assert list(yaml.load_all(file.read_text(), Strict))


#: v1 in the last of the versions only, as docs/policies.md says.
_NEW_KINDS: Final = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}


@pytest.mark.parametrize("document", _OBJECTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_object_fits_the_schema_of_each_supported_version(
    document: dict[str, object], version: str
) -> None:
    if document["kind"] in _NEW_KINDS and version != VERSIONS[-1]:
        with pytest.raises(kubernetes_validate.SchemaNotFoundError):
            kubernetes_validate.validate(document, version, strict=True)
        return
    kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("kind", CERT_MANAGER)
def test_objects_of_cert_manager_have_known_fields_and_issuers(kind: str) -> None:
    everything = [document for _, document in every_object()]
    ours = [each for each in everything if each["apiVersion"].startswith("cert-manager.io/")]
    assert {each["apiVersion"] for each in ours} == {"cert-manager.io/v1"}
    assert {each["kind"] for each in ours} == set(CERT_MANAGER)
    issuers = {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in ours
        if each["kind"] == "Issuer"
    }
    for each in (each for each in ours if each["kind"] == kind):
        assert set(each["spec"]) <= CERT_MANAGER[kind]
        if kind == "Certificate":
            reference = each["spec"]["issuerRef"]
            assert (each["metadata"]["namespace"], reference["name"]) in issuers


def test_a_document_without_a_kind_is_a_json_patch() -> None:
    """What kubeadm and kustomize take as such; applied in the tests of both."""
    patches = [(file, each) for file, each in every_document() if not isinstance(each, dict)]
    assert patches
    for file, patch in patches:
        assert "+json" in file.name, file
        assert all({"op", "path"} <= set(operation) for operation in patch)


def test_namespaces_are_those_of_the_folder() -> None:
    """So that removing a folder removes all of it, and nothing else."""
    for file, document in every_object():
        namespace = document.get("metadata", {}).get("namespace")
        if namespace in (None, "kube-system"):
            continue
        way = file.relative_to(FOLDER).parts[0]
        assert namespace == {
            "second-scheduler": "runtimeclass-scheduler",
            "remote": "runtimeclass-extender",
            "webhook": "runtimeclass-webhook",
        }.get(way), file


def test_no_file_is_over_100_columns() -> None:
    for file in (*yaml_files(), *FOLDER.rglob("*.sh")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            assert len(line) <= 100, f"{file}:{number}"
