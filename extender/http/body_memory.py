"""The memory of a request's body: what arrives is written to where it is read from.

The compiled part (`_bodies.c`) hands it out as bytes without a copy. Without it there is none, and
bodies come in pieces that are joined: what Python has, it fills with zeros first, all 64 MiB that
somebody only announces. RUNTIMECLASS_EXTENDER_PURE_PYTHON=1 switches it off.
"""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from extender import _bodies as compiled
else:
    try:
        from extender import _bodies as compiled
    except ImportError:
        compiled = None

#: Whether the compiled part is in use.
IS_COMPILED: Final = compiled is not None and not os.environ.get(
    "RUNTIMECLASS_EXTENDER_PURE_PYTHON"
)


class BodyMemory:
    """Memory for bodies that are being received: so many bytes together, arrived or not.

    What was written to stays with the process when it is freed, until all is returned at once. A
    thousand clients that had announced 31 MiB each, and sent that one after the other, were refused
    for holding too much, and left 30 GB behind.
    """

    def __init__(self, most: int) -> None:
        self._left = most if IS_COMPILED else 0

    def has_room(self, size: int) -> bool:
        """Whether a body of this size may be received in memory of its own."""
        return size <= self._left

    def take(self, size: int) -> "compiled.Body":
        """Raises MemoryError."""
        body = compiled.Body(size)
        self._left -= size
        return body

    def give_back(self, size: int) -> None:
        """A body of this size is complete, or dropped."""
        self._left += size
