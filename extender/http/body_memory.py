"""The memory of a request's body: what arrives is written to where it is read from.

The compiled part (`_bodies.c`) hands it out as bytes without a copy; without it, one is made.
RUNTIMECLASS_EXTENDER_PURE_PYTHON=1 switches it off.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extender import _bodies as compiled
else:
    try:
        from extender import _bodies as compiled
    except ImportError:
        compiled = None


class CopiedBody(bytearray):
    """As _bodies.Body; size is in bytes."""

    def finish(self) -> bytes:
        return bytes(self)


Body = (
    CopiedBody
    if compiled is None or os.environ.get("RUNTIMECLASS_EXTENDER_PURE_PYTHON")
    else compiled.Body
)
