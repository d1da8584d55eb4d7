"""docs/security.md says what is shipped: rights, ports, network policies, and tests that exist."""

import re
from itertools import product
from typing import Final

import pytest

from tests.config.chart import RELEASES, needs_helm, objects_of_chart
from tests.config.kustomize import the
from tests.config.pages import page, rows, section
from tests.config.shipped import FOLDER, INSTALL, Json, containers, objects
from tests.processes import ROOT

Right = tuple[str, str, str]

#: The service's own role, the same in each way to run it.
_OF_THE_SERVICE: Final = (
    "runtimeclass-extender-control-plane",
    "runtimeclass-extender-remote",
    "runtimeclass-scheduler",
)


def _told_rights() -> set[Right]:
    told: set[Right] = set()
    for role, verb, resource, why in rows(section("security", "## Rights")):
        assert why, (role, verb, resource)
        names = _OF_THE_SERVICE if role == "…" else (role.removesuffix(" (Role)"),)
        for right in product(names, verb.split(", "), resource.split(", ")):
            assert right not in told, "told twice"
            told.add(right)
    return told


@needs_helm
def test_the_rights_are_those_of_the_table() -> None:
    tenants = ("webhook.fit=true", "viewer.tenants=true", "pages=true")
    releases = [
        *RELEASES.values(),
        (*RELEASES["viewer"], *tenants),
        ("webhook.enabled=true", "webhook.fit=true", "webhook.warnImpact=true"),
    ]
    roles = [
        each
        for values in releases
        for each in objects_of_chart(*values, flags=())
        if each["kind"] in ("Role", "ClusterRole")
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
    told = {
        (folder.strip("`"), int(port)) for folder, port, *_ in rows(section("security", "## Ports"))
    }
    pods = [(file, each["spec"]) for file, each in objects("Pod")]
    pods += [(file, each["spec"]["template"]["spec"]) for file, each in objects("Deployment")]
    assert told == {
        (file.stem if file.parent == INSTALL else file.relative_to(FOLDER).parts[0], port)
        for file, spec in pods
        for port in _listening(spec)
    }


@needs_helm
@pytest.mark.parametrize("way", ["secondScheduler", "remote", "webhook"])
@pytest.mark.parametrize("closed", [False, True])
def test_its_policies_are_of_the_pods_and_ports_that_are_there(way: str, closed: bool) -> None:
    more = ("networkPolicy.apiServer={10.0.0.1/32}",) if closed else ()
    objects = objects_of_chart(f"{way}.enabled=true", *more)
    template = the("Deployment", objects)["spec"]["template"]
    names = {port["name"] for each in containers(template["spec"]) for port in each["ports"]}
    policy = the("NetworkPolicy", objects)["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert policy["policyTypes"] == (["Ingress", "Egress"] if closed else ["Ingress"])
    assert ("10.0.0.1/32" in str(policy["ingress"])) is (closed and way == "webhook")
    for rule in policy["ingress"]:
        ports = {port["port"] for port in rule["ports"]}
        assert ports <= names
        assert rule.get("from") or (way, ports) == ("webhook", {"https"}), "from anywhere"
    for rule in policy.get("egress", ()):
        assert rule["to"], "to anywhere"
        assert {port["port"] for port in rule["ports"]} in ({443, 6443}, {53})


def test_every_test_that_is_named_exists() -> None:
    text = page("security") + page("SECURITY.md")
    for file, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert (ROOT / file).is_file(), file
        assert not test or f"def {test}(" in (ROOT / file).read_text(), test
    assert len(re.findall(r"`tests/[\w/]+\.py::", page("security"))) > 20
