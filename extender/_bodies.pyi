class Body:
    """Memory of so many bytes, with any content; can be written to until it is finished."""

    def __init__(self, size: int, /) -> None:
        """Raises MemoryError."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def finish(self) -> bytes:
        """The bytes themselves, no copy. Whoever has a view from before must not write any more."""
