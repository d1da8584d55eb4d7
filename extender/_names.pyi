class NameTable:
    """Name → number, from 1 to 2**32 - 2, in memory of its own; a name is known by its hash."""

    def set(self, name: bytes, number: int, /) -> None: ...
    def discard(self, name: bytes, /) -> None: ...
    def copy(self) -> NameTable: ...
    def translate(self, buffer: bytes, start: int, ends: bytes, codes: bytes, /) -> bytes:
        """codes[number] for each name of a run; codes[0] for those that aren't there."""

def measure(buffer: bytes, start: int, end: int, /) -> bytes | None:
    """Where the names of buffer[start:end] end; None when they are no plain names.

    Native unsigned numbers of 32 bits, counted from start.
    """

def part(
    buffer: bytes,
    start: int,
    ends: bytes,
    codes: bytes,
    endings: tuple[bytes, ...],
    cut: int,
    keep: bool = ...,
    /,
) -> tuple[bytes, bytes]:
    """The names of code 0 joined by separators, and each other one with endings[code - 1] behind.

    Of the last ending `cut` bytes are left out, and without `keep` all names of code 0.
    """

def tally(codes: bytes, kinds: int, /) -> list[int]:
    """How often each code occurs, of those below `kinds`."""

def find_victims(buffer: bytes, start: int, end: int, most: int, /) -> tuple[bytes, bytes] | None:
    """The names of the victims' entries at buffer[start:end] joined, and where each entry ends.

    Native unsigned numbers of 32 bits, counted from start. None unless they are as Go writes them,
    with plain strings, and at most so many.
    """

def keep_entries(buffer: bytes, start: int, ends: bytes, flags: bytes, /) -> bytes:
    """The entries whose flag is not 0, joined by commas; one byte lies between any two of them."""
