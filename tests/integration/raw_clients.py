"""A client that sends bytes of any kind over a socket, and reads answers one by one."""

import contextlib
import json
import socket
import ssl
from types import TracebackType
from typing import NamedTuple, Self

#: A test fails after waiting that long for anything.
PATIENCE = 20.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        message = json.loads(self.body)["error"]
        assert isinstance(message, str)
        return message


class RawClient:
    """One connection; `answer()` reads the next of the answers on it."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self.sock = socket.create_connection(address, PATIENCE)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self._file = self.sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
            self.sock.close()

    def send(self, data: bytes) -> Self:
        self.sock.sendall(data)
        return self

    def answer(self, method: str = "POST") -> Answer:
        status, headers = self.head()
        size = 0 if method == "HEAD" else int(headers.get("content-length", "0"))
        return Answer(status, headers, self._file.read(size))

    def head(self) -> tuple[int, dict[str, str]]:
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {}
        while (field := self._file.readline()) != b"\r\n":
            name, _, value = field.decode().partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers

    def ended(self) -> bool:
        """Whether the server closed the connection without sending anything more."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def is_open(self) -> bool:
        """Whether the server has neither closed the connection nor sent anything yet."""
        self.sock.setblocking(False)
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK)) and False
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self.sock.settimeout(PATIENCE)
