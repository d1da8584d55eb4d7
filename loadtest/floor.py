"""The floor: the service's server stack reads the same body and sends an answer prepared before.

    python -m loadtest.floor

PUT a verb's path with the answer to prepare; POST it as one would ask the service.
"""

import sys
from collections.abc import Sequence

from flask import Flask, Response, request

from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.http.verb_routes import read_body
from loadtest.stack import bare_app, bind_parser, run

_JSON = {"Content-Type": "application/json"}


def create_floor_app() -> Flask:
    app = bare_app("floor")
    prepared: dict[str, bytes] = {}

    @app.post("/<verb>")
    def answer(verb: str) -> Response:
        read_body(DEFAULT_MAX_BODY_BYTES)
        return Response([prepared[verb]], 200, _JSON)

    @app.put("/<verb>")
    def prepare(verb: str) -> Response:
        prepared[verb] = request.get_data()
        return Response(status=204)

    return app


def main(argv: Sequence[str] | None = None) -> int:
    flags = bind_parser("loadtest.floor", "Answers with what was prepared.").parse_args(argv)
    return run(create_floor_app(), flags)


if __name__ == "__main__":
    sys.exit(main())
