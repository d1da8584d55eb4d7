"""The one place that makes text safe for a terminal and a log: a line stays one line.

Names, paths and messages of other programs may hold line breaks, escape sequences that move a
cursor or change colours, marks that change the direction of writing, and lone surrogates.
"""


def printable(text: str) -> str:
    """The text with "?" in place of each character that is neither visible nor a space."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
