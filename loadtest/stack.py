"""The service's own server for another application: what the plain version runs on."""

import argparse
import gc
import sys

from extender.flags import address
from extender.http.exchange import Application as HttpApplication
from extender.http.routing import Threads
from extender.serving.gunicorn_worker import Application, Running
from extender.serving.listeners import ListenOptions, announce, listen_on


def bind_parser(module: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--bind", type=address, default="127.0.0.1:0", metavar="HOST:PORT")
    return parser


def run(app: HttpApplication, flags: argparse.Namespace) -> int:
    """Serve until told to stop, with what serve's flags are by default."""
    options = ListenOptions(bind=flags.bind)
    listener = listen_on(options.bind, "--bind")
    print(f"listening on {announce(listener, tls=False)}", file=sys.stderr, flush=True)

    def start() -> Running:
        # As the service does: what lives as long as the process is not collected again.
        gc.collect()
        gc.freeze()
        return Running(app, app, Threads.of(1), lambda: None)

    Application(options, listener, None, start).run()
    return 0
