"""Every shipped YAML is what Kubernetes 1.30 to 1.37 takes."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils

from tests.config.shipped import FOLDER, documents, every_object, name_of, yaml_files

VERSIONS: Final = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")

#: Checked elsewhere: by kustomize, by kube-scheduler, by kubeadm, by whoever reads a kubeconfig.
NO_OBJECTS: Final = {
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
    ("kustomize.config.k8s.io/v1alpha1", "Component"),
    ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"),
    ("v1", "Config"),
}

_OBJECTS: Final = [
    pytest.param(document, id=f"{name_of(file)} {document['kind']} {index}")
    for index, (file, document) in enumerate(every_object())
    if (document["apiVersion"], document["kind"]) not in NO_OBJECTS
    # cert-manager's kinds are in no Kubernetes schema; see below.
    and not document["apiVersion"].startswith("cert-manager.io/")
]


@pytest.fixture(autouse=True, scope="module")
def schemas_read_once() -> Iterator[None]:
    """Otherwise each validation reads the definitions of its version again, some megabytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", cache(utils.schema_contents))
        yield


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


#: v1 since 1.36, as docs/policies.md says.
_NEW_KINDS: Final = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}


@pytest.mark.parametrize("document", _OBJECTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_object_fits_the_schema_of_each_supported_version(
    document: dict[str, object], version: str
) -> None:
    if document["kind"] in _NEW_KINDS and version < "1.36":
        with pytest.raises(kubernetes_validate.SchemaNotFoundError):
            kubernetes_validate.validate(document, version, strict=True)
        return
    kubernetes_validate.validate(document, version, strict=True)


def test_namespaces_are_those_of_the_folder() -> None:
    """So that removing a file's objects removes all of it, and nothing else."""
    for file, document in every_object():
        namespace = document.get("metadata", {}).get("namespace")
        if namespace in (None, "kube-system"):
            continue
        assert namespace == {
            "second-scheduler": "runtimeclass-scheduler",
            "remote": "runtimeclass-extender",
            "webhook": "runtimeclass-webhook",
        }.get(file.stem), file
