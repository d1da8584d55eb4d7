"""Heads of earlier requests: one that is repeated byte for byte need not be parsed again.

kube-scheduler's heads differ in Content-Length alone. The parser calls back for each header; a head
that it has read once, and that was found to be in order, is looked up instead.
"""

from typing import Final

from extender.http.exchange import Request

END: Final = b"\r\n\r\n"

#: How many heads are remembered, their size and their fields, each of which takes 130 bytes more:
#: 4 MB together. When there are more, all are dropped, and the next ones are parsed again.
MAX_HEADS: Final = 1024
MAX_SIZE: Final = 1024
MAX_FIELDS: Final = 16


class KnownHeads:
    """Requests without their bodies by head, from the first byte to the empty line.

    Owned by the thread of the event loop.
    """

    def __init__(self) -> None:
        self._requests: dict[bytes, Request] = {}

    def read(self, data: bytearray, size: int) -> tuple[Request, memoryview] | None:
        """What has arrived, data[:size], if it is a known head and nothing but its content.

        The request without its content, and as much of that as has arrived.
        """
        end = data.find(END, 0, size) + len(END)
        arrived = memoryview(data)
        known = self._requests.get(bytes(arrived[:end]))
        if known is None or known.size < size - end:
            return None
        request = Request(
            known.method,
            known.target,
            known.headers,
            [],
            known.size,
            known.keep_alive,
            known.encoding,
        )
        return request, arrived[end:size]

    def learn(self, data: bytes, request: Request, arrived: int) -> None:
        """Remember the head; data is all that has arrived of this request, as the parser read it.

        With a chunked body data has more than the head and the bytes of content that have arrived,
        so it is not remembered. Neither is a head that waits for 100 Continue.
        """
        end = data.find(END) + len(END)
        if end > MAX_SIZE or len(request.headers) > MAX_FIELDS or request.header(b"expect"):
            return
        if len(data) - end != arrived:
            return
        if len(self._requests) >= MAX_HEADS:
            self._requests.clear()
        self._requests[data[:end]] = Request(
            *(request.method, request.target, request.headers, []),
            *(request.size, request.keep_alive, request.encoding),
        )
