"""The service's own server stack for another application: what the comparisons run on.

The same gunicorn set-up and worker, socket options, Flask and way to read a body, so that a
difference in the table is a difference in the work done for an answer.
"""

import argparse
import gc
import sys

from flask import Flask

from extender.flags import address
from extender.server import Application, ListenOptions, Running, announce, listen_on


def bare_app(name: str) -> Flask:
    """An application that answers the readiness probe, and nothing else yet."""
    app = Flask(name, static_folder=None)
    app.get("/readyz")(lambda: "ok")
    return app


def bind_parser(module: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--bind", type=address, default="127.0.0.1:0", metavar="HOST:PORT")
    return parser


def run(app: Flask, flags: argparse.Namespace) -> int:
    """Serve until told to stop, with what serve's flags are by default."""
    options = ListenOptions(bind=flags.bind)
    listener = listen_on(options.bind, "--bind")
    print(f"listening on {announce(listener, tls=False)}", file=sys.stderr, flush=True)

    def start(_preloaded: object) -> Running:
        # As the service does: what lives as long as the process is not collected again.
        gc.collect()
        gc.freeze()
        return Running(app, app, lambda: None, lambda _status: None)

    Application(options, listener, None, start).run()
    return 0
