"""The server with a small application of the tests', for test_server.py to start as a process.

The first argument is JSON: `limits` for the connections, `listen` for the options.
"""

import asyncio
import json
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from extender.flags import Address
from extender.http.all_connections import Limits
from extender.http.exchange import Answer, Refusal, Request
from extender.http.routing import Threads
from extender.serving import logs
from extender.serving.gunicorn_worker import Application, Running
from extender.serving.listeners import ListenOptions


class Echo:
    """Answers with what the path asks for."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads

    def __call__(self, request: Request) -> Answer | asyncio.Future[Answer]:
        match request.target.decode().strip("/").split("/", 1):
            case ["echo"]:
                return Answer([request.body])
            case ["pid"]:
                return Answer([str(os.getpid()).encode()])
            case ["zeros", size]:
                return Answer([bytes(int(size))])
            case ["held", fifo]:  # until the test opens the other end
                return asyncio.get_running_loop().run_in_executor(self._threads, read, fifo)
            case ["fail", "late"]:
                return asyncio.get_running_loop().run_in_executor(self._threads, fail)
            case _:
                raise OSError("the application failed")

    def refused(self, refusal: Refusal) -> None:
        print(f"on_refusal {refusal.status.value}", file=sys.stderr, flush=True)


def read(fifo: str) -> Answer:
    return Answer([Path("/", fifo).read_bytes()])


def fail() -> Answer:
    raise ValueError("the application failed late")


class LimitedApplication(Application):
    """With the limits of the test."""

    changed: dict[str, Any]

    @property
    def limits(self) -> Limits:
        given = super().limits
        every = {name: getattr(given, name) for name in Limits.__slots__}
        return Limits(**(every | self.changed))


def main(listener: socket.socket, arguments: dict[str, Any]) -> None:
    logs.configure("text", 0)
    options = ListenOptions(Address("127.0.0.1", 0), **arguments["listen"])

    def start() -> Running:
        threads = Threads.of(2)
        echo = Echo(threads.pages)
        stopping = "on_stopping"
        return Running(echo, echo, threads, lambda: print(stopping, file=sys.stderr, flush=True))

    application = LimitedApplication(options, listener, None, start)
    application.changed = arguments["limits"]
    application.run()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]))
