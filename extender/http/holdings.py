"""What connections hold in memory of requests that are not answered yet."""

from extender.http.connection import Connection, Phase


class Holdings:
    """Bytes by connection, whoever began its request first standing first.

    Owned by the worker's main thread.
    """

    def __init__(self) -> None:
        self._sizes: dict[Connection, int] = {}
        self.total = 0

    def note(self, conn: Connection, size: int) -> None:
        """The connection holds so much now."""
        self.total += size - self._sizes.get(conn, 0)
        self._sizes[conn] = size

    def release(self, conn: Connection) -> None:
        self.total -= self._sizes.pop(conn, 0)

    def longest_gathering(self) -> Connection | None:
        """Whose request has been arriving for longest."""
        return next((conn for conn in self._sizes if conn.phase is Phase.GATHERING), None)
