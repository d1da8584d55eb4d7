"""Where one HTTP/1.1 request ends in the bytes received so far; pure, it never waits.

The worker's poller thread feeds it whatever arrived and learns when a request is complete.
Only the framing is read here (RFC 9112 section 6): end of the head, length of the body.
Everything else in the head is left to gunicorn's parser, which reads it again in the pool
thread; the worker answers 400 when the two disagree about the length of the body.
"""

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import NamedTuple

from gunicorn import util

# gunicorn's own limits allow 100 header fields of 8 KiB; no client of a scheduler extender
# sends more than one bearer token (about 2 KiB) beside the usual ten fields.
HEAD_LIMIT = 64 * 1024
# Asked of the first recv() of a request: one system call for most requests.
RECEIVE_SIZE = 64 * 1024
# Asked of any later recv(), however much is missing: recv() allocates what it asks for.
RECEIVE_LIMIT = 1024 * 1024
# A chunk's size and its extension, or one trailer line; gunicorn's own limit is 8190.
CHUNK_LINE_LIMIT = 4096
# Scanning a chunk costs about a microsecond of the poller thread. Clients send 4 KiB or more
# a chunk: 64 Ki chunks carry 256 MiB, and hold the poller for less than 0.1 s in all.
CHUNKS_LIMIT = 64 * 1024
# What a chunked body may have on the wire beside its content: 16 bytes a chunk.
CHUNK_OVERHEAD_LIMIT = 16 * CHUNKS_LIMIT
# A body that arrives a byte at a time would take 50 bytes of memory a byte: join that often.
PIECES_LIMIT = 1024
# gunicorn's chunk reader copies what it holds at every chunk, so it is handed little at a time.
CHUNKED_SOURCE_SIZE = 8 * 1024
# 10^18 bytes. Longer numbers are not lengths, and int() is slow on very long ones.
LENGTH_DIGITS_LIMIT = 18

_END_OF_HEAD = b"\r\n\r\n"
# Greedy to the end of the line and stripped afterwards: a pattern that strips backtracks
# quadratically over 64 KiB of blanks.
_FRAMING_FIELD = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect):([^\r\n]*)", re.IGNORECASE
)
_DIGITS = re.compile(rb"[0-9]+")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")


class Refusal(Exception):  # noqa: N818 - a malformed or too large request, not a fault of ours
    """The request can't be accepted; the connection is answered and closed.

    `status` is the HTTP status, `message` the one line for the client.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class GatheredRequest(NamedTuple):
    """All bytes of one request.

    `head` ends with its empty line. `pieces` are the content as it was received, or, when
    `chunked`, the chunks with their trailers. `rest` came after the request's end.
    """

    head: bytes
    pieces: list[bytes | memoryview]
    chunked: bool
    rest: bytes

    def joined(self) -> bytes:
        """The body in one piece; for the pool thread, as a large one takes milliseconds."""
        # bytes() of a bytes object is that object: a body received at once is never copied.
        return bytes(self.pieces[0]) if len(self.pieces) == 1 else b"".join(self.pieces)

    def source(self) -> Iterator[bytes]:
        """What gunicorn's parser reads: the head, and the chunks it has to decode."""
        yield self.head
        if self.chunked:
            for piece in self.pieces:
                for start in range(0, len(piece), CHUNKED_SOURCE_SIZE):
                    yield bytes(piece[start : start + CHUNKED_SOURCE_SIZE])


class ChunkScanner:
    """Finds the end of a chunked body (RFC 9112 section 7.1) without decoding it."""

    def __init__(self, max_body_bytes: int) -> None:
        self._limit = max_body_bytes
        self._announced = 0
        self._chunks = 0
        self._line = b""
        self._data_left = 0
        self._data_ended = False
        self._trailer_bytes: int | None = None

    def scan(self, data: bytes) -> int:
        """The position in `data` just after the body's last byte, or -1 when it is not there.

        Raises Refusal for a malformed chunk, too many of them, or too much content.
        """
        position = 0
        while position < len(data):
            if self._data_left:
                step = min(self._data_left, len(data) - position)
                self._data_left -= step
                position += step
                continue
            end = data.find(b"\n", position) + 1
            self._line += data[position : end or len(data)]
            if len(self._line) > CHUNK_LINE_LIMIT:
                raise Refusal(HTTPStatus.BAD_REQUEST, "a chunk's size line is too long")
            if not end:
                return -1
            line, self._line, position = self._line, b"", end
            if self._is_last_line(line):
                return position
        return -1

    def _is_last_line(self, line: bytes) -> bool:
        if not line.endswith(b"\r\n"):
            raise Refusal(HTTPStatus.BAD_REQUEST, "a line of the chunked body ends without CRLF")
        if self._trailer_bytes is not None:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > HEAD_LIMIT:
                raise _head_too_large()
            return line == b"\r\n"
        if self._data_ended:
            if line != b"\r\n":
                raise Refusal(HTTPStatus.BAD_REQUEST, "a chunk is longer than its size")
            self._data_ended = False
            return False
        self._begin_chunk(line)
        return False

    def _begin_chunk(self, line: bytes) -> None:
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, "malformed chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._trailer_bytes = 0
            return
        self._announced += size
        if self._announced > self._limit:
            raise _body_too_large(f"more than {self._limit}", self._limit)
        self._chunks += 1
        if self._chunks > CHUNKS_LIMIT:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {CHUNKS_LIMIT} chunks")
        self._data_left = size
        self._data_ended = True


class Gathering:
    """The bytes of the request a connection is sending; owned by the poller thread.

    `max_body_bytes` limits the content.
    """

    __slots__ = (
        "_early",
        "_head",
        "_joined",
        "_length",
        "_limit",
        "_pieces",
        "_received",
        "_scanner",
        "awaits_continue",
    )

    def __init__(self, max_body_bytes: int) -> None:
        self._limit = max_body_bytes
        self._early = b""
        self._head = b""
        self._length = 0
        self._received = 0
        self._pieces: list[bytes | memoryview] = []
        self._joined = 0
        self._scanner: ChunkScanner | None = None
        # The client holds the body back until it is told "100 Continue"; the worker clears it.
        self.awaits_continue = False

    @property
    def wanted(self) -> int:
        """How many bytes to receive next."""
        if not self._length:
            return RECEIVE_SIZE
        return min(self._length - self._received, RECEIVE_LIMIT)

    @property
    def held(self) -> int:
        """How many bytes it keeps."""
        return len(self._early) + len(self._head) + self._received

    def feed(self, data: bytes) -> GatheredRequest | None:
        """Take received bytes; the request, once it is complete.

        Raises Refusal when it can't be accepted; this object is then of no further use.
        """
        if self._head:
            return self._add(data)
        early = len(self._early)
        if early:
            data = self._early + data
        end = data.find(_END_OF_HEAD, max(0, early - 3)) + len(_END_OF_HEAD)
        if end < len(_END_OF_HEAD):
            end = 0
        if (end or len(data)) > HEAD_LIMIT:
            raise _head_too_large()
        if not end:
            self._early = data
            return None
        self._early = b""
        self._head = data[:end]
        self._read_framing()
        return self._add(memoryview(data)[end:])

    def _read_framing(self) -> None:
        """Find the body's kind and length.

        Heads that gunicorn will refuse (two lengths, a length and a transfer coding, a coding
        other than chunked) count as having no body, so that they reach it and are answered.
        """
        lengths: list[bytes] = []
        codings: list[bytes] = []
        for name, padded in _FRAMING_FIELD.findall(self._head):
            value = padded.strip(b" \t")
            match name.lower():
                case b"content-length":
                    lengths.append(value)
                case b"transfer-encoding":
                    codings.append(value.lower())
                case _ if value.lower() == b"100-continue":
                    self.awaits_continue = self._head.split(b"\r\n", 1)[0].endswith(b"HTTP/1.1")
        if codings and not lengths and codings[-1].split(b",")[-1].strip(b" \t") == b"chunked":
            self._scanner = ChunkScanner(self._limit)
        elif len(lengths) == 1 and not codings and _DIGITS.fullmatch(lengths[0]):
            self._length = self._accepted_length(lengths[0])

    def _accepted_length(self, digits: bytes) -> int:
        if len(digits) > LENGTH_DIGITS_LIMIT:
            message = f"Content-Length has more than {LENGTH_DIGITS_LIMIT} digits"
            raise Refusal(HTTPStatus.BAD_REQUEST, message)
        length = int(digits)
        if length > self._limit:
            raise _body_too_large(str(length), self._limit)
        return length

    def _add(self, piece: bytes | memoryview) -> GatheredRequest | None:
        self._pieces.append(piece)
        self._received += len(piece)
        end = self._end_in(piece)
        if end < 0:
            self._bound_pieces()
            return None
        rest = b""
        if end < len(piece):
            rest = bytes(piece[end:])
            self._pieces[-1] = piece[:end]
        return GatheredRequest(self._head, self._pieces, self._scanner is not None, rest)

    def _end_in(self, piece: bytes | memoryview) -> int:
        """Where the body ends in the newest piece, or -1."""
        if self._scanner is None:
            missing = self._length - self._received
            return -1 if missing > 0 else len(piece) + missing
        end = self._scanner.scan(bytes(piece))
        gathered = self._received if end < 0 else self._received - len(piece) + end
        if gathered > self._limit + CHUNK_OVERHEAD_LIMIT:
            raise _body_too_large(f"more than {self._limit}", self._limit)
        return end

    def _bound_pieces(self) -> None:
        """Join what was not joined before, so that this copies no byte twice."""
        if len(self._pieces) - self._joined >= PIECES_LIMIT:
            self._pieces[self._joined :] = [b"".join(self._pieces[self._joined :])]
            self._joined += 1


def _head_too_large() -> Refusal:
    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    return Refusal(status, f"request head is over the limit of {HEAD_LIMIT} bytes")


def _body_too_large(size: str, limit: int) -> Refusal:
    message = f"request body of {size} bytes is over the limit of {limit} bytes (--max-body-bytes)"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def error_answer(status: HTTPStatus, message: str) -> bytes:
    """The whole answer, head and JSON body, to a request that never reaches the application."""
    body = json.dumps({"error": message}).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Date: {util.http_date()}\r\n"
        "Connection: close\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body
