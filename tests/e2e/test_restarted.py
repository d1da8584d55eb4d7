"""What the real kube-scheduler was told by a service that has been restarted since."""

import time

import pytest

from tests.e2e.cluster import Cluster, free_ports
from tests.processes import running, until

#: kube-scheduler's flush of pods that nothing wakes comes after 5 minutes.
WOKEN_SECONDS = 30.0

RUNSC = ("", "runc", "runsc")


@pytest.mark.parametrize("appears", ["afterwards", "while it is down"])
def test_a_pod_refused_for_a_handler_is_woken_after_a_restart(
    appears: str, either: Cluster
) -> None:
    cluster = either
    cluster.add_node("n1", {"sandbox": "gvisor"}, handlers=["", "runc"])
    cluster.add_node("n2")
    cluster.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    (port,) = free_ports(1)
    kubeconfig = str(cluster.kubeconfig("extender"))
    serve = ("serve", "--bind", f"127.0.0.1:{port}", "--kubeconfig", kubeconfig, "--requeue-pods")
    with running(*serve) as first:
        until(lambda: first.request("GET", "/readyz")[0] == 200)
        with cluster.scheduler(first.url):
            cluster.add_pod("web", "gvisor")
            until(lambda: "no runtime handler" in cluster.message_of("web"))
            first.stop()
            if appears == "while it is down":
                cluster.set_handlers("n1", *RUNSC)
            with running(*serve) as second:
                second.wait_for_line("waiting pods listed")
                if appears == "afterwards":
                    cluster.set_handlers("n1", *RUNSC)
                began = time.monotonic()
                until(lambda: cluster.node_of("web") == "n1", WOKEN_SECONDS)
                print(f"bound {time.monotonic() - began:.2f} s later")


def test_a_restart_of_kube_apiserver_takes_no_right_away(instead: Cluster) -> None:
    """It refuses everybody at first, which the log does not call a missing permission."""
    instead.add_node("n1", {"k": "v"})
    instead.add_class("kata", "kata-qemu", {"k": "v"})
    with instead.serving("--requeue-pods") as server:
        instead.restart_apiserver()
        until(lambda: "stale" in server.request("GET", "/readyz?verbose")[1].decode())
        until(lambda: "stale" not in server.request("GET", "/readyz?verbose")[1].decode(), 90)
        print([line for line in server.log.splitlines() if "HTTP 40" in line])
        assert "missing permission" not in server.log
        assert "does not accept our credentials" not in server.log
