"""serve --watch-pods: gauges of pods and overhead, from a cluster and from manifests."""

import re
from pathlib import Path
from typing import Final

from tests.fakes.apiserver import NODES, PODS, RUNTIME_CLASSES, FakeApiServer, Right, kubeconfig
from tests.integration.test_rights import SERVICE
from tests.integration.test_usage_commands import CLUSTER, filled
from tests.processes import Server, running, serving, until

#: Of tests/usage/cluster.yaml.
EXPECTED: Final = {
    'pods{runtimeclass="<unknown>",state="stranded"}': 1.0,
    'pods{runtimeclass="kata",state="drifted"}': 2.0,
    'pods{runtimeclass="kata",state="pending"}': 1.0,
    'pods{runtimeclass="kata",state="running"}': 1.0,
    'pods{runtimeclass="kata",state="stranded"}': 1.0,
    'overhead{resource="cpu",runtimeclass="kata"}': 1.0,
    'overhead{resource="memory",runtimeclass="kata"}': 600.0 * 2**20,
}

_SAMPLE: Final = re.compile(
    r"^runtimeclass_extender_((?:pods|overhead)\{.*\}) (\S+)$", re.MULTILINE
)


def gauges(server: Server) -> dict[str, float]:
    text = server.request("GET", "/metrics")[1].decode()
    samples = ((_sorted(name), float(value)) for name, value in _SAMPLE.findall(text))
    return {name: value for name, value in samples if value}


def _sorted(name: str) -> str:
    metric, _, labels = name.rstrip("}").partition("{")
    return f"{metric}{{{','.join(sorted(labels.split(',')))}}}"


def test_manifests_are_counted_as_a_cluster_is(tmp_path: Path) -> None:
    expected = {_sorted(name): value for name, value in EXPECTED.items()}
    with serving(CLUSTER, flags=("--watch-pods",)) as server:
        assert gauges(server) == expected
    with serving(CLUSTER) as server:
        assert gauges(server) == {}
    with filled(FakeApiServer()) as api:
        (tmp_path / "kubeconfig").write_text(kubeconfig(api.url))
        flags = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--watch-pods")
        with running("serve", "--bind", "127.0.0.1:0", *flags) as server:
            until(lambda: gauges(server) == expected)
            api.delete(PODS, "orphan")
            api.put(NODES, {"metadata": {"name": "n7", "labels": {}}})
            stranded = _sorted('pods{runtimeclass="kata",state="stranded"}')
            until(lambda: gauges(server).get(stranded) == 2.0)
            assert _sorted('pods{runtimeclass="<unknown>",state="stranded"}') not in gauges(server)
            assert "pod-watch" in server.request("GET", "/readyz?verbose")[1].decode()


def test_without_the_right_readiness_names_it_and_the_rest_works(tmp_path: Path) -> None:
    needed: set[Right] = {("", "pods", "list"), ("", "pods", "watch")}
    rights = SERVICE - needed
    with filled(FakeApiServer()) as api:
        api.rights = rights
        (tmp_path / "kubeconfig").write_text(kubeconfig(api.url))
        flags = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--watch-pods")
        with running("serve", "--bind", "127.0.0.1:0", *flags) as server:
            server.wait_for_line("serving")

            def told() -> bool:
                status, text, _ = server.request("GET", "/readyz?verbose")
                return status == 200 and b'resource "pods"' in text

            until(told)
            api.delete(RUNTIME_CLASSES, "kata-v2")
            until(lambda: b"kata-v2" not in server.request("GET", "/runtimeclasses")[1])
            assert gauges(server) == {}
            api.rights = rights | needed
            until(lambda: bool(gauges(server)), 40.0)
