"""docs/tutorial.md on a node with a kubelet, as it says for readers without kind."""

from typing import Final

from tests.documented import commands
from tests.e2e.tutorial import PAGE, UNTRIED, blocks
from tests.node.node import NAME, Node
from tests.node.parts import until
from tests.node.reader import Reader

_THEIRS: Final = "runtimeclass-worker"


def _typed(text: str) -> list[str]:
    """The page's commands, but for kind and docker, with this node's name."""
    found = []
    for language, content in blocks(text.replace(f"{_THEIRS}2", NAME).replace(_THEIRS, NAME)):
        if language == "console":
            found += [command for command, _ in commands(content)]
        elif not content.startswith(UNTRIED):
            found.append(content)
    return found


def test_the_tutorial_ends_with_a_pod_that_runs(node: Node, second_scheduler: Reader) -> None:
    second_scheduler.types("mkdir -p my-cluster")
    for script in _typed(PAGE.read_text()):
        # Its last commands, done below but for the scheduler, which other tests need.
        if script.startswith("helm install") or "helm uninstall" in script:
            continue
        # `explain` ends with 1 where a pod fits nowhere.
        second_scheduler.types(f"{script} || true" if "runtimeclass explain" in script else script)
        if "kubectl label" in script:
            until(lambda: 'no runtime handler "runsc"' in second_scheduler.events("web"), 60)
    pod = second_scheduler.wait("web")["spec"]
    assert (pod["nodeName"], pod["runtimeClassName"]) == (NAME, "gvisor")
    node.kubectl("label", "node", NAME, "sandbox-")
