"""A finding about an object of a file, and where in the file it is."""

from dataclasses import dataclass

from extender.checks.finding import Finding


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """subject: kind, namespace and name of the object; line counts from 1."""

    finding: Finding
    file: str
    line: int
    subject: str
