"""The floor: a bare uvicorn application that reads a body and sends a prepared answer.

    python -m loadtest.floor

PUT the answer to a path to prepare it. Then POST requests to the path, as to the service.
"""

import gc
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

from extender.server.starting import address, announce, listen_on

_KEEP_ALIVE_SECONDS: Final = 120

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Answers by path.
_PREPARED: dict[str, bytes] = {"/readyz": b"ok"}


async def prepared(scope: Message, receive: Receive, send: Send) -> None:
    """The ASGI application."""
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    if scope["method"] == "PUT":
        _PREPARED[scope["path"]] = b"".join(pieces)
        body = b""
    else:
        body = _PREPARED.get(scope["path"], b"")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve until stopped, with the service's settings of uvicorn."""
    listener = listen_on(address("127.0.0.1:0"), "--bind")
    print(f"listening on {announce(listener, tls=False)[0]}", file=sys.stderr, flush=True)
    config = uvicorn.Config(
        prepared,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    # As in the service: objects that live as long as the process are not collected again.
    gc.collect()
    gc.freeze()
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
