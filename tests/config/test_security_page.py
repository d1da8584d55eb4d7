"""docs/security.md says what is shipped: rights, ports, network policies, and tests that exist."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.config.kustomize import KUSTOMIZATIONS, build, needs_kustomize, prepare
from tests.config.shipped import (
    FOLDER,
    Json,
    containers,
    documents,
    objects,
    scheduler_configurations,
)
from tests.processes import ROOT

_PAGE: Final = (ROOT / "docs" / "security.md").read_text()

#: Belongs to nobody (RFC 5737), so it has to be replaced.
_PLACEHOLDER: Final = "192.0.2.0/24"

Right = tuple[str, str, str]


def _section(heading: str) -> str:
    return re.split(r"^## ", _PAGE.split(f"\n## {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def _rows(heading: str) -> list[list[str]]:
    """The cells of the first table of a section."""
    lines = [line for line in _section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared"))


def _with(prepared: Path, folder: str, component: str, patches: list[Json] | None = None) -> Path:
    """A kustomization of a folder and a component of it, as an operator's own."""
    own = prepared / "own" / component.replace("/", "-")
    own.mkdir(parents=True, exist_ok=True)
    kustomization = {
        "resources": [f"../../{folder}"],
        "components": [f"../../{component}"],
        "patches": patches or [],
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return own


#: The service's own role, the same in each way to run it.
_OF_THE_SERVICE: Final = (
    "runtimeclass-extender-control-plane",
    "runtimeclass-extender-remote",
    "runtimeclass-scheduler",
)


def _told_rights() -> set[Right]:
    told: set[Right] = set()
    for role, verb, resource, why in _rows("Rights"):
        assert why, (role, verb, resource)
        for name in _OF_THE_SERVICE if role == "…" else (role.removesuffix(" (Role)"),):
            assert (name, verb, resource) not in told, "told twice"
            told.add((name, verb, resource))
    return told


@needs_kustomize
def test_the_rights_are_those_of_the_table(prepared: Path) -> None:
    folders = [prepared / each.relative_to(FOLDER) for each in KUSTOMIZATIONS]
    folders.append(_with(prepared, "webhook/openssl", "webhook/components/fit"))
    roles = [
        each for folder in folders for each in build(folder) if each["kind"] in _KINDS_OF_ROLES
    ]
    granted = {
        (role["metadata"]["name"], verb, resource)
        for role in roles
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    assert granted == _told_rights()
    assert not {"*", "secrets"} & {part for right in granted for part in right}


_KINDS_OF_ROLES: Final = {"Role", "ClusterRole"}


def _listening(spec: Json) -> set[int]:
    """The ports of a pod: those of flags, and those it declares."""
    found = set()
    for each in containers(spec):
        found |= {port["containerPort"] for port in each.get("ports", ())}
        for flag in each.get("args", ()):
            if match := re.fullmatch(r"--(?:ops-)?bind=.*:(\d+)", flag):
                found.add(int(match[1]))
    return found


def test_the_ports_are_those_of_the_table() -> None:
    told = {(folder.strip("`"), int(port)) for folder, port, *_ in _rows("Ports")}
    pods = [(file, each["spec"]) for file, each in objects("Pod")]
    pods += [(file, each["spec"]["template"]["spec"]) for file, each in objects("Deployment")]
    assert told == {
        (file.relative_to(FOLDER).parts[0], port)
        for file, spec in pods
        for port in _listening(spec)
    }


def test_a_port_that_only_the_pod_or_the_node_reaches_is_bound_to_loopback() -> None:
    for folder, port, _, _, who in _rows("Ports"):
        binds = [
            flag.partition("=")[2]
            for kind in ("Pod", "Deployment")
            for _, each in objects(kind, folder.strip("`"))
            for one in containers(each["spec"].get("template", each)["spec"])
            for flag in one.get("args", ())
            if re.fullmatch(rf"--(?:ops-)?bind=.*:{port}", flag)
        ]
        if binds:
            assert all(each.startswith("127.0.0.1:") for each in binds) is ("127.0.0.1" in who)


_COMPONENTS: Final = {
    "webhook/components/network-policy": "webhook/openssl",
    "remote/components/egress": "remote/base",
    "second-scheduler/components/egress": "second-scheduler/beside-plugin",
}


def test_each_component_of_network_policies_is_told() -> None:
    told = {row[0].strip("`") for row in _rows("Network policies")}
    shipped = {
        str(file.parent.relative_to(FOLDER))
        for file, _ in objects("NetworkPolicy")
        if "components" in file.parts
    }
    assert told == shipped == set(_COMPONENTS)


@needs_kustomize
@pytest.mark.parametrize(("component", "folder"), _COMPONENTS.items())
def test_its_policies_are_of_the_pods_and_ports_that_are_there(
    component: str, folder: str, prepared: Path
) -> None:
    built = build(_with(prepared, folder, component))
    (deployment,) = (each for each in built if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    names = {port["name"] for each in containers(template["spec"]) for port in each["ports"]}
    policies = [each for each in built if each["kind"] == "NetworkPolicy"]
    ways = {way for each in policies for way in each["spec"]["policyTypes"]}
    assert ways == {"Ingress", "Egress"}
    for policy in policies:
        assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
        selected = policy["spec"]["podSelector"]["matchLabels"]
        assert selected.items() <= template["metadata"]["labels"].items()
        for rule in policy["spec"].get("ingress", ()):
            assert {port["port"] for port in rule["ports"]} <= names
            assert rule["from"], "from anywhere"
        for rule in policy["spec"].get("egress", ()):
            assert rule["to"], "to anywhere"
            assert {port["port"] for port in rule["ports"]} in ({443, 6443}, {53})
    shipped = [
        each
        for file in (FOLDER / component).glob("network-policy.yaml")
        for each in documents(file)
    ]
    assert _PLACEHOLDER in yaml.safe_dump_all(shipped), "an address that may be somebody's"


@needs_kustomize
def test_the_kustomization_of_the_page_leaves_no_address_that_is_nobody_s(prepared: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", _section("Network policies"), re.S)
    own = prepared / "my-webhook"
    own.mkdir()
    text = block.replace("../scheduler-config/", "../")
    (own / "kustomization.yaml").write_text(text)
    policies = [each for each in build(own) if each["kind"] == "NetworkPolicy"]
    assert [each["metadata"]["name"] for each in policies] == ["runtimeclass-webhook"]
    printed = yaml.safe_dump_all(policies)
    assert _PLACEHOLDER not in printed
    assert printed.count("10.0.0.0/24") == 2


def test_no_scheduler_is_told_to_let_the_extender_bind() -> None:
    files = scheduler_configurations()
    assert files
    for file in files:
        for configuration in documents(file):
            for extender in configuration["extenders"]:
                assert "bindVerb" not in extender


def test_every_test_that_is_named_exists() -> None:
    for page in ("docs/security.md", "SECURITY.md"):
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / page).read_text())
        for file, test in named:
            assert (ROOT / file).is_file(), file
            assert not test or f"def {test}(" in (ROOT / file).read_text(), test
    assert len(re.findall(r"`tests/[\w/]+\.py::", _PAGE)) > 20


def test_the_page_says_of_each_condition_which_pods_the_webhook_sees() -> None:
    told = _PAGE.split("\n### A compromised webhook\n", 1)[1].split("They could not:", 1)[0]
    text = "".join(file.read_text() for file in (FOLDER / "webhook").rglob("*.yaml"))
    named = {
        "object.spec.runtimeClassName": "names a RuntimeClass",
        "object.spec.overhead": "overhead",
        "'runtimeclass-extender/isolation' in object.metadata.annotations": "/isolation`",
        "object.metadata.annotations": "annotated",
    }
    asked = set(re.findall(r"(?:'[\w./-]+' in )?object\.\w+\.\w+", text))
    assert asked == set(named)
    for words in named.values():
        assert words in told
