"""A server that reads a body and answers with what was prepared, on a stack that is to be measured.

python -m loadtest.prepared --stack uvicorn

PUT a path with the answer to prepare; POST it as one would ask the service (loadtest/stacks.py).
"""

import gc
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final

from gunicorn.app.base import BaseApplication

from extender.http.exchange import Answer, Refusal, Request
from extender.serving.listeners import announce, listen_on
from extender.serving.memory import keep_freed_memory
from loadtest import stack

_KEEP_ALIVE_SECONDS: Final = 120

#: Answers by path.
_PREPARED: dict[str, bytes] = {"/readyz": b"ok"}

Json = dict[str, Any]


def _answer(method: str, path: str, body: bytes) -> bytes:
    if method == "PUT":
        _PREPARED[path] = body
        return b""
    return _PREPARED.get(path, b"")


class _OwnApp:
    """For the service's own server."""

    def __call__(self, request: Request) -> Answer:
        method, path = request.method.decode(), request.target.decode()
        return Answer([_answer(method, path, request.body)])

    def refused(self, refusal: Refusal) -> None:
        """Nothing is counted here."""


async def _asgi_app(
    scope: Json,
    receive: Callable[[], Awaitable[Json]],
    send: Callable[[Json], Awaitable[None]],
) -> None:
    """For servers that speak ASGI (asgi.readthedocs.io, HTTP 2.5)."""
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    answer = _answer(scope["method"], scope["path"], b"".join(pieces))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(answer)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _settle() -> None:
    """What the service does for itself, so that it is not this that makes the difference."""
    keep_freed_memory()
    gc.collect()
    gc.freeze()


def _run_uvicorn(listener: socket.socket) -> int:
    import uvicorn

    config = uvicorn.Config(
        _asgi_app,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    _settle()
    uvicorn.Server(config).run(sockets=[listener])
    return 0


class _AsgiApplication(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn with its own asgi worker."""

    def __init__(self, listener: socket.socket, loop: str) -> None:
        self._listener = listener
        self._loop = loop
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": "asgi",
            "asgi_loop": self._loop,
            "asgi_lifespan": "off",
            "http_parser": "fast",
            "keepalive": _KEEP_ALIVE_SECONDS,
            "loglevel": "warning",
            "control_socket_disable": True,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        _settle()
        return _asgi_app


def _run_gunicorn(listener: socket.socket, loop: str = "uvloop") -> int:
    _AsgiApplication(listener, loop).run()
    return 0


_STACKS: Final[dict[str, Callable[[socket.socket], int] | None]] = {
    "own": None,
    "uvicorn": _run_uvicorn,
    "gunicorn": _run_gunicorn,
    "gunicorn-asyncio": partial(_run_gunicorn, loop="asyncio"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = stack.bind_parser("loadtest.prepared", "Answers with what was prepared.")
    parser.add_argument("--stack", choices=_STACKS, default="own", help="the server beneath")
    flags = parser.parse_args(argv)
    run = _STACKS[flags.stack]
    if run is None:
        return stack.run(_OwnApp(), flags)
    listener = listen_on(flags.bind, "--bind")
    print(f"listening on {announce(listener, tls=False)}", file=sys.stderr, flush=True)
    return run(listener)


if __name__ == "__main__":
    sys.exit(main())
