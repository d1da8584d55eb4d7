"""A gunicorn server with GatheringWorker, for test_worker.py to start as a process.

The first argument is JSON: `settings` for gunicorn, `worker` for the worker's attributes.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from extender.http.worker import GatheringWorker

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    body = environ["wsgi.input"].read()
    match environ["PATH_INFO"].strip("/").split("/", 1):
        case ["echo"]:
            answer = body
        case ["pid"]:
            answer = str(os.getpid()).encode()
        case ["zeros", size]:
            answer = bytes(int(size))
        case ["held", fifo]:  # until the test opens the other end
            answer = Path("/", fifo).read_bytes()
        case ["fail", "late"]:
            start_response("200 OK", [("Content-Length", "6")])
            return fail_after(b"abc")
        case ["fail", "exit"]:
            sys.exit(3)
        case _:
            raise OSError("the application failed")
    start_response("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]


def fail_after(beginning: bytes) -> Iterator[bytes]:
    yield beginning
    raise ValueError("the application failed late")


class Worker(GatheringWorker):
    def on_stopping(self) -> None:
        self.log.info("on_stopping")

    def on_refusal(self, status: HTTPStatus) -> None:
        self.log.info("on_refusal %d", status)


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Callable[[dict[str, Any], StartResponse], Iterable[bytes]]:
        return application


def main(arguments: dict[str, Any]) -> None:
    worker = type("ConfiguredWorker", (Worker,), arguments["worker"])
    settings = {"control_socket_disable": True, "worker_class": worker}
    Server(settings | arguments["settings"]).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
