class NameTable:
    """Name → number, from 1 to 2**32 - 2, in memory of its own; keys are 16 secret bytes."""

    def __new__(cls, keys: bytes, /) -> NameTable: ...
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

    Of the second text the last `cut` bytes are left out, and without `keep` all names of code 0.
    """

def tally(codes: bytes, /) -> bytes:
    """How often each code occurs: 256 native unsigned numbers of 64 bits."""
