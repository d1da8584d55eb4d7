"""Keeps freed memory for the next request, and returns what start-up took.

A request of 65,000 names takes and frees a dozen pieces of some megabytes. glibc returns each to
the kernel and has to ask for it again, page by page: 3,900 page faults a request, which took two
fifths of its time (`make bench`, docs/performance.md).
"""

import contextlib
import ctypes
from typing import Final

# malloc.h of glibc 2.31 to 2.42.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

#: Pieces up to this size come from the heap; glibc accepts no larger threshold.
_MMAP_THRESHOLD: Final = 32 * 2**20

#: How much may stay free at the end of the heap: twice a request of 150,000 names and its answer.
_TRIM_THRESHOLD: Final = 64 * 2**20


def keep_freed_memory() -> bool:
    """Configure glibc's allocator; False with another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)
    )


def give_back_freed_memory() -> None:
    """Return free memory to the kernel, after work that needed much more than what is kept.

    Without a garbage collection, which would keep all threads waiting: what requests take is free
    once they are answered.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
