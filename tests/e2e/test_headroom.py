"""As many more pods as `classes --headroom` tells are bound; the next waits for what it names.

The gauge of `serve --watch-pods` tells the same.
"""

import json
import os
import random
from typing import Any, Final

from extender.kubernetes.decoder import decode
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.model.using_objects import Wait
from tests.e2e.cluster import Cluster
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import Server, run, until

#: A hundred take some minutes.
CLUSTERS: Final = int(os.environ.get("HEADROOM_CLUSTERS", "4"))
KEYS: Final = "tdx.intel.com/keys"
LABEL: Final = {"node-restriction.kubernetes.io/sandbox": "kata"}


def resources(draw: random.Random) -> dict[str, str]:
    found = {
        "cpu": draw.choice(["100m", "250m", "1"]),
        "memory": draw.choice(["0", "100Mi", "1Gi", "1500M"]),
        KEYS: draw.choice(["0", "0", "1"]),
        "hugepages-2Mi": draw.choice(["0", "0", "4Mi"]),
    }
    return {name: amount for name, amount in found.items() if amount != "0"}


def container(requests: dict[str, str]) -> list[dict[str, Any]]:
    amounts = {"requests": requests, "limits": requests} if requests else {}
    return [{"name": "c", "image": "registry.example/none", "resources": amounts}]


def test_so_many_more_pods_are_bound_and_the_next_waits_for_what_ends_it(instead: Cluster) -> None:
    with instead.scheduling("--watch-pods") as server:
        for seed in range(CLUSTERS):
            print(f"cluster {seed}")
            fill(instead, server, random.Random(seed))
            instead.clear()


def fill(cluster: Cluster, server: Server, draw: random.Random) -> None:
    for number in range(draw.randrange(1, 4)):
        room = {
            "cpu": draw.choice(["2", "3500m"]),
            "memory": draw.choice(["3Gi", "4Gi"]),
            "pods": draw.choice(["3", "8"]),
            KEYS: draw.choice(["2", "5"]),
            "hugepages-2Mi": "16Mi",
        }
        labels = LABEL if number != 2 else {}
        sizes: Any = {"allocatable": room, "capacity": room}
        cluster.add_node(f"n{number}", labels, handlers=["", "kata"], **sizes)
    overhead = draw.choice([{}, {"memory": "160Mi"}, {"cpu": "100m", KEYS: "1"}])
    document = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": overhead}}
    cluster.create(RUNTIME_CLASSES, {**document, "scheduling": {"nodeSelector": LABEL}})
    before = draw.randrange(3)
    for number in range(before):
        cluster.add_pod(f"before-{number}", containers=container(resources(draw)))
    until(lambda: all(cluster.node_of(f"before-{n}") for n in range(before)))
    requests = resources(draw)
    asked = ",".join(f"{name}={amount}" for name, amount in requests.items())
    told = headroom(cluster, "--requests", asked)
    fits, ended = told["fits"], told["limitedBy"]
    names = [f"p{number}" for number in range(fits + 1)]
    for name in names:
        spec = {"overhead": overhead} if overhead else {}
        cluster.add_pod(name, "kata", containers=container(requests), **spec)
    until(lambda: sum(bool(cluster.node_of(name)) for name in names) == fits)
    (left,) = (name for name in names if not cluster.node_of(name))
    said = "Too many pods" if ended == "pods" else f"Insufficient {ended}"
    until(lambda: said in cluster.message_of(left))
    waiting = placed_pod_of(decode(json.dumps(cluster.pod(left)).encode(), RawPod))
    assert waiting.wait is Wait.RESOURCES
    fits = headroom(cluster)["fits"]
    gauge = f'headroom_pods{{runtimeclass="kata"}} {fits:.1f}\n'
    until(lambda: gauge in server.request("GET", "/metrics")[1].decode())


def headroom(cluster: Cluster, *flags: str) -> dict[str, Any]:
    """What `classes --headroom` tells of the one class."""
    config = ("--kubeconfig", str(cluster.kubeconfig("admin")))
    told = run("classes", "--headroom", *flags, "-o", "json", *config).stdout
    found: dict[str, Any] = json.loads(told)["items"][0]["headroom"]
    return found
