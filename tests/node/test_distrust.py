"""A handler whose program is missing, which containerd reports all the same: `serve --distrust`."""

from tests.node.node import NAME, Node
from tests.node.parts import step, until
from tests.node.reader import Reader, a_pod
from tests.processes import ready

AFTER = 20


def test_two_pods_that_get_no_sandbox_make_the_handler_suspect_and_the_node_says_so(
    node: Node, reader: Reader
) -> None:
    flags = ("--kubeconfig", str(node.kubeconfig), "--distrust-after", str(AFTER))
    with ready("serve", *flags) as server:

        def metric(name: str) -> str:
            text = server.request("GET", "/metrics")[1].decode()
            return text.partition(f'suspect_nodes{{runtimeclass="{name}"}} ')[2].partition("\n")[0]

        with step("from the pods' creation to the kubelet's complaint"):
            for name in ("broken-1", "broken-2"):
                reader.apply(a_pod(name, "broken", nodeName=NAME))
            missing = {"name": "v", "configMap": {"name": "missing"}}
            for name in ("volume-1", "volume-2"):
                pod = a_pod(name, "runc", nodeName=NAME, volumes=[missing])
                pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
                reader.apply(pod)
            reader.apply(a_pod("works", "crun", nodeName=NAME))
            until(lambda: "FailedCreatePodSandBox" in reader.events("broken-1"), 90)
        with step(f"from there to the suspect, with --distrust-after {AFTER}"):
            until(lambda: metric("broken") == "1.0", 90)
        assert (metric("runc"), metric("crun")) == ("0.0", "0.0")
        told = node.kubectl("describe", "node", NAME)
        print(told[told.index("Events:") :])
        assert 'runtime handler "broken" failed to start' in told
        assert "pods fail to start on 1 of 1 nodes" in server.log
