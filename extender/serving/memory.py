"""Keeps freed memory for the next request, and gives back what start-up took.

A request of 65,000 names takes and frees a dozen pieces of some megabytes. glibc gives each back
to the kernel and has to ask for it again, page by page: 3,900 page faults a request, which were
two fifths of its time (`make bench`, docs/performance.md).
"""

import contextlib
import ctypes
import gc
from typing import Final

# malloc.h of glibc 2.31 to 2.42.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

#: Pieces up to this size come from the heap; glibc takes no more.
_MMAP_THRESHOLD: Final = 32 * 2**20

#: What may be free at the heap's end and stay: a request of 150,000 names and its answer, twice.
_TRIM_THRESHOLD: Final = 64 * 2**20


def keep_freed_memory() -> bool:
    """Tell the C library; False where it is none that can be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
    )


def give_back_freed_memory() -> None:
    """Return what is free now to the kernel, after work that took much more than stays."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
