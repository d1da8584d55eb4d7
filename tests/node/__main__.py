"""python -m tests.node up|down: what `make node` and `make node-down` do."""

import sys

from tests.node.node import FOLDER, Node
from tests.node.parts import MissingError, build, look, step


def up() -> None:
    look()
    build()
    node = Node()
    node.start()
    print(f"export KUBECONFIG={node.kubeconfig}")
    print(f"One Node is Ready. Its programs' logs: {FOLDER}/*.log. make node-down ends it.")


def down() -> None:
    with step(f"ending the node of {FOLDER}"):
        Node().stop()


if __name__ == "__main__":
    try:
        {"up": up, "down": down}[sys.argv[1]]()
    except MissingError as error:
        sys.exit(f"make node: {error}")
    except AssertionError as error:
        # It was waited for in vain.
        sys.exit(f"make node: {error}; see {FOLDER}/*.log")
