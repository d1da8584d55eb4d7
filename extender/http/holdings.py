"""What connections hold in memory: requests that are not answered yet, answers not sent yet."""

from typing import Final

from extender.http.connection import Connection, Phase

#: To give up less would help nobody: of so much a thousand connections may hold each.
WORTH_GIVING_UP: Final = 64 * 1024

#: Phases in which it is the client that is waited for.
_WAITING_FOR_CLIENT: Final = frozenset({Phase.GATHERING, Phase.SENDING})


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

    def slowest(self) -> Connection | None:
        """Of the connections that hold much, the one whose client has taken longest.

        None if there is but one, or all are being answered: they will be done without anybody's
        help.
        """
        large = [conn for conn, size in self._sizes.items() if size > WORTH_GIVING_UP]
        waiting = (conn for conn in large if conn.phase in _WAITING_FOR_CLIENT)
        return next(waiting, None) if len(large) > 1 else None
