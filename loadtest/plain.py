"""The plain version as a server: json, a loop over the nodes, the service's server stack.

python -m loadtest.plain --manifests cluster.json
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from extender.http.exchange import Answer, Refusal, Request, error_answer
from loadtest.plain_matching import PlainCluster, PlainExtender
from loadtest.stack import bind_parser, run


class PlainApp:
    """An application of three verbs."""

    def __init__(self, extender: PlainExtender) -> None:
        self._verbs: dict[bytes, Callable[[Any], object]] = {
            b"/filter": extender.filter,
            b"/prioritize": extender.prioritize,
            b"/preempt": extender.preempt,
        }

    def __call__(self, request: Request) -> Answer:
        if request.target == b"/readyz":
            return Answer([b"ok"])
        verb = self._verbs.get(request.target)
        if verb is None:
            return error_answer(404, "no such path")
        # Without the blanks that json.dumps writes by default, as encoding/json does.
        document = verb(json.loads(request.body))
        return Answer([json.dumps(document, separators=(",", ":")).encode()])

    def refused(self, refusal: Refusal) -> None:
        """Nothing is counted here."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = bind_parser("loadtest.plain", "The extender as one would write it first.")
    parser.add_argument("--manifests", type=Path, required=True, metavar="FILE", help="a JSON List")
    flags = parser.parse_args(argv)
    objects = json.loads(flags.manifests.read_bytes())["items"]
    return run(PlainApp(PlainExtender(PlainCluster.of(objects))), flags)


if __name__ == "__main__":
    sys.exit(main())
