"""The terms of a RuntimeClass joined with those of a pod's required node affinity.

Terms are alternatives, so for both lists to hold, each of the pod's terms is joined with each of
the class's. A term of the pod that already contains one of the class's is left as it is: a second
admission changes nothing.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final

from extender.objects import (
    ClassRules,
    NodeRequirement,
    SelectorRequirement,
    SelectorTerm,
    size_of,
)
from extender.predicates.shape_parts import readable_terms, requirements_in

#: The limits of a joined pod: its requirements, and the characters of their keys and values. A Pod
#: in etcd can't hold as many, since etcd takes 1.5 MiB a request.
MAX_REQUIREMENTS: Final = 10_000
MAX_CHARACTERS: Final = 2**21

Terms = tuple[SelectorTerm, ...]

#: A term that no node matches.
_NOTHING: Final = SelectorTerm()


class TooManyTermsError(ValueError):
    """The pod's terms joined with the class's come to more than a Pod can hold."""


def joined_terms(of_pod: Terms | None, rules: ClassRules | None) -> Terms | None:
    """The terms that a pod is to have, None where it may keep its own. Raises TooManyTermsError.

    of_pod is None for a pod without required node affinity. Terms of a class that match no node are
    left out, unless it has no others.
    """
    if rules is None or rules.terms is None:
        return None
    known = set(map(frozenset, readable_terms(rules)))
    of_class = [
        each for each in dict.fromkeys(rules.terms) if frozenset(requirements_in(each)) in known
    ]
    if of_pod is None:
        return tuple(of_class) or (_NOTHING,)
    if not of_class:
        return None if all(map(_is_empty, of_pod)) else (_NOTHING,)
    joined: dict[SelectorTerm, None] = {}
    required = [frozenset(requirements_in(each)) for each in of_class]
    count = size = 0
    for term in of_pod:
        for each in _with_class(term, of_class, required):
            count += len(each.match_expressions) + len(each.match_fields)
            if count > MAX_REQUIREMENTS:
                raise TooManyTermsError(f"more than {MAX_REQUIREMENTS:,} requirements")
            size += size_of(each)
            if size > MAX_CHARACTERS:
                raise TooManyTermsError(f"more than {MAX_CHARACTERS:,} characters")
            joined[each] = None
    found = tuple(joined)
    return None if found == of_pod else found


def _with_class(
    term: SelectorTerm,
    of_class: Sequence[SelectorTerm],
    required: Sequence[Set[NodeRequirement]],
) -> Iterator[SelectorTerm]:
    """The terms that replace one of the pod's; required: what each of the class's requires."""
    if _is_empty(term):
        # The term matches no node; joined with another it would match some.
        yield term
        return
    own = frozenset(requirements_in(term))
    if any(each <= own for each in required):
        yield term
        return
    yield from (
        SelectorTerm(
            _with(term.match_expressions, each.match_expressions),
            _with(term.match_fields, each.match_fields),
        )
        for each in of_class
    )


def _with(
    own: tuple[SelectorRequirement, ...], added: tuple[SelectorRequirement, ...]
) -> tuple[SelectorRequirement, ...]:
    return tuple(dict.fromkeys((*own, *added)))


def _is_empty(term: SelectorTerm) -> bool:
    return not (term.match_expressions or term.match_fields)
