"""The plain version as a server: json, a loop over the nodes, the service's server stack.

python -m loadtest.plain --manifests cluster.json
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flask import Flask, Response, request

from loadtest.plain_matching import PlainCluster, PlainExtender
from loadtest.stack import bare_app, bind_parser, run


def create_plain_app(extender: PlainExtender) -> Flask:
    app = bare_app("plain")

    def verb(name: str, answer: Callable[[Any], object]) -> None:
        def view() -> Response:
            document = answer(json.loads(request.get_data()))
            # Without the blanks that json.dumps writes by default, as encoding/json does.
            text = json.dumps(document, separators=(",", ":"))
            return Response(text, mimetype="application/json")

        app.add_url_rule(f"/{name}", name, view, methods=["POST"])

    verb("filter", extender.filter)
    verb("prioritize", extender.prioritize)
    verb("preempt", extender.preempt)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    parser = bind_parser("loadtest.plain", "The extender as one would write it first.")
    parser.add_argument("--manifests", type=Path, required=True, metavar="FILE", help="a JSON List")
    flags = parser.parse_args(argv)
    objects = json.loads(flags.manifests.read_bytes())["items"]
    return run(create_plain_app(PlainExtender(PlainCluster.of(objects))), flags)


if __name__ == "__main__":
    sys.exit(main())
