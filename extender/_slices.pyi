from msgspec import Raw

def cuts(buffer: bytes | memoryview | Raw, start: int, step: int, /) -> list[int] | None:
    """Where the JSON array or object that begins at start may be cut, and last where it ends.

    Places of commas directly within it; no piece is longer than two steps, unless it is a single
    element. None when the array or object does not end. Other threads run meanwhile.
    """
