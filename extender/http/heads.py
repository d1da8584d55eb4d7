"""Heads of requests that came before: a client that repeats itself byte for byte is known again.

kube-scheduler's heads differ in Content-Length alone. The parser calls back for each header; a head
that it has read once, and that was found to be in order, is looked up instead.
"""

from typing import Final

from extender.http.exchange import Request

END: Final = b"\r\n\r\n"

#: Heads that are remembered, of up to so many bytes each: 2 MB together. When there are more, all
#: are dropped, which costs those who come next a parser's run.
MAX_HEADS: Final = 1024
MAX_SIZE: Final = 1024


class KnownHeads:
    """By head, from the first byte to the empty line: a request without its body.

    Owned by the thread of the event loop.
    """

    def __init__(self) -> None:
        self._requests: dict[bytes, Request] = {}

    def read(self, data: bytes) -> Request | None:
        """A request that is complete in data and has nothing behind it, if its head is known."""
        end = data.find(END) + len(END)
        known = self._requests.get(data[:end])
        if known is None or known.size != len(data) - end:
            return None
        return Request(
            *(known.method, known.target, known.headers, [data[end:]]),
            *(known.size, known.keep_alive, known.encoding),
        )

    def learn(self, data: bytes, request: Request) -> None:
        """Data was the whole of this request, as the parser read it.

        With a chunked body there is more than the head and the content, so it is not learned.
        """
        end = data.find(END) + len(END)
        if end > MAX_SIZE or len(data) - end != request.size:
            return
        if len(self._requests) >= MAX_HEADS:
            self._requests.clear()
        self._requests[data[:end]] = Request(
            *(request.method, request.target, request.headers, []),
            *(request.size, request.keep_alive, request.encoding),
        )
