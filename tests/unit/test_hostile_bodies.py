"""Bodies made to take long: none occupies the thread for large bodies for a second."""

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import count
from typing import Final

import pytest

from extender.http.limits import DEFAULT_MAX_BODY_BYTES
from extender.model.objects import Node, RuntimeClass
from extender.verbs.bodies import MAX_NAMES, MAX_NODES, MAX_OBJECT_BYTES, MAX_OTHER_BYTES
from extender.verbs.preempt import MAX_PREEMPTION_BYTES
from tests.asking import Client
from tests.services import client_over

#: Each body takes less than 1 s on an idle machine; the time of the test's client counts too.
SECONDS: Final = 3.0

_LIMIT: Final = DEFAULT_MAX_BODY_BYTES
_POD: Final = b'{"metadata":{"name":"p"},"spec":{"runtimeClassName":"kata"}}'
_NODES: Final = b'{"Pod":%b,"Nodes":{"metadata":{},"items":[' % _POD
_NODES_END: Final = b']},"NodeNames":null}'
_NAMES: Final = b'{"Pod":%b,"Nodes":null,"NodeNames":["' % _POD
_ODD_NAMES: Final = b'{"Pod":%b, "NodeNames":["' % _POD
_VICTIMS: Final = b'{"Pod":%b,"NodeNameToVictims":null,"NodeNameToMetaVictims":{' % _POD
_WHOLE: Final = b'{"Pod":%b,"NodeNameToVictims":{"n":{"Pods":[' % _POD
_WHOLE_END: Final = b']}},"NodeNameToMetaVictims":null}'
_TINY: Final = b'{"metadata":{"name":"node-%06d"},"spec":{},"status":{}}'


def filled(start: bytes, element: bytes, end: bytes, size: int, between: bytes = b",") -> bytes:
    """As many elements as fit into size bytes."""
    times = (size - len(start) - len(end)) // (len(element) + len(between))
    return start + (element + between) * (times - 1) + element + end


def numbered(start: bytes, element: bytes, end: bytes, times: int) -> bytes:
    return start + b",".join(element % number for number in range(times)) + end


def nodes_with(part: bytes, element: bytes, times: int, size: int) -> bytes:
    """Whole Nodes, each with a list of that many elements; no two lists are equal."""
    items, number, left = [], count(), size - 200
    listed = b",".join([element.replace(b"%d", b"%d" % each) for each in range(times)])
    while left > 0:
        name = b"%07d" % next(number)
        items.append(_AROUND % (name, part.replace(b"NAME", name).replace(b"LIST", listed)))
        left -= len(items[-1]) + 1
    return _NODES + b",".join(items[:-1]) + _NODES_END


_AROUND: Final = b'{"metadata":{"name":"%b"},%b}'
_LABELS: Final = b'"metadata":{"name":"NAME","labels":{"z":"NAME",LIST}}'
_TAINTS: Final = b'"spec":{"taints":[{"key":"NAME"},LIST]}'
_HANDLERS: Final = b'"status":{"runtimeHandlers":[{"name":"NAME"},LIST]}'
_CONDITIONS: Final = b'"status":{"conditions":[{"type":"NAME"},LIST]}'
_DECLARED: Final = b'"status":{"declaredFeatures":["NAME",LIST]}'


def with_pod(pod: bytes) -> bytes:
    return _NAMES.replace(_POD, pod) + b'n"]}'


def filters() -> Iterator[tuple[str, Callable[[], bytes]]]:
    limit, other = _LIMIT, MAX_OTHER_BYTES
    yield "keys", lambda: numbered(b"{", b'"%011d":1', b"}", 4_000_000)
    yield "fewer keys", lambda: numbered(b"{", b'"%06d":1', b"}", 390_000)
    yield "a key in odd case", lambda: filled(b"{", b'"pOD":{}', b"}", 3 * 2**20)
    yield "199,000 tiny Nodes", lambda: numbered(_NODES, _TINY, _NODES_END, 199_000)
    yield "tiny Nodes", lambda: numbered(_NODES, _TINY, _NODES_END, MAX_NODES)
    start = b'{"Pod":%b,"Nodes":{"items":[' % _POD
    yield "null Nodes", lambda: filled(start, b"null", b"]}}", other)
    yield "Nodes of labels", lambda: nodes_with(_LABELS, b'"%d":"a"', 500, limit)
    yield "Nodes of taints", lambda: nodes_with(_TAINTS, b"{}", 30_000, limit)
    yield "Nodes of few taints", lambda: nodes_with(_TAINTS, b"{}", 14, 2 * 2**20)
    yield "Nodes of handlers", lambda: nodes_with(_HANDLERS, b'{"name":"%d"}', 500, limit)
    yield "Nodes of few handlers", lambda: nodes_with(_HANDLERS, b'{"name":"%d"}', 14, 5 * 2**20)
    yield "Nodes of conditions", lambda: nodes_with(_CONDITIONS, b'{"type":"%d"}', 500, limit)
    status = b'{"type":"%d","status":"a"}'
    yield "Nodes of few conditions", lambda: nodes_with(_CONDITIONS, status, 14, 8 * 2**20)
    yield "Nodes of features", lambda: nodes_with(_DECLARED, b'"%d"', 500, limit)
    yield "a Node of odd things", lambda: filled(_NODES + b'{"x":[', b"[]", b"]}]}}", limit)
    yield "empty names", lambda: filled(_NAMES, b"", b'"]}', limit, b'","')
    yield "names", lambda: numbered(_NAMES[:-1], b'"node-%09d"', b"]}", MAX_NAMES)
    yield "long names", lambda: filled(_NAMES, b"n" * 64, b'"]}', limit, b'","')
    yield "odd names", lambda: filled(_ODD_NAMES, b"n" * 18, b'"]}', other, b'","')
    yield "arrays in arrays", lambda: b'{"x":' + b"[" * (limit - 10)
    yield "objects in objects", lambda: filled(b'{"Pod":', b'{"a":', b"", other, b"")
    nested = b"[" * 20 + b"]" * 20
    odd = filled(b'{"x":[', nested, b"]}", MAX_OBJECT_BYTES - 50)
    yield "a Pod of odd things", lambda: with_pod(odd)
    tolerations = b'{"spec":{"tolerations":['
    many = numbered(tolerations, b'{"key":"%d"}', b"]}}", 99_000)
    yield "a Pod of tolerations", lambda: with_pod(many)
    yield "a Pod too large", lambda: with_pod(filled(tolerations, b"{}", b"]}}", limit - 200))


def preemptions() -> Iterator[tuple[str, Callable[[], bytes]]]:
    limit, other = MAX_PREEMPTION_BYTES, MAX_OTHER_BYTES
    of_one = _VICTIMS + b'"n":{"Pods":['
    uid = b'{"UID":"%036d"}' % 1
    pod = b'{"metadata":{"uid":"a"},"x":[1,2]}'
    odd = b'{"Uid":"0123456789abc"}'
    yield "empty victims", lambda: filled(of_one, b"{}", b"]}}}", limit)
    yield "victims", lambda: filled(of_one, uid, b"]}}}", limit)
    yield "many nodes", lambda: numbered(_VICTIMS, b'"%07d":{}', b"}}", 790_000)
    yield "nodes", lambda: numbered(_VICTIMS, b'"%07d":{}', b"}}", 150_000)
    yield "pods", lambda: filled(_WHOLE, pod, _WHOLE_END, limit)
    yield "empty pods", lambda: filled(_WHOLE, b"{}", _WHOLE_END, limit)
    yield "odd victims", lambda: filled(of_one, odd, b"]}}}", other)
    yield "odd nodes", lambda: numbered(_VICTIMS, b'"%06d":{"pods":null}', b"}}", 150_000)
    yield "odd pods", lambda: filled(_WHOLE, pod, b"]}} }", other)


#: The filter's bodies that other verbs get too.
_OTHERS: Final = ("prioritize", "explain", "preempt")
_FOR_ALL: Final = {
    **dict.fromkeys(("keys", "fewer keys", "tiny Nodes", "arrays in arrays"), _OTHERS),
    "names": ("prioritize", "preempt"),
}

#: The verbs of a body come one after the other, so that the body is made once.
CASES = [
    *(
        pytest.param(verb, make, id=f"{verb}-{name}")
        for name, make in filters()
        for verb in ("filter", *_FOR_ALL.get(name, ()))
    ),
    *(pytest.param("preempt", make, id=f"preempt-{name}") for name, make in preemptions()),
]


@lru_cache(maxsize=1)
def made(make: Callable[[], bytes]) -> bytes:
    return make()


@pytest.fixture(scope="module")
def client() -> Client:
    classes = [
        RuntimeClass(f"kata{each or ''}", "kata", (("sandbox", f"kata{each}"),))
        for each in range(10)
    ]
    return client_over([Node(f"node-{each:09}") for each in range(5_000)], classes)


@pytest.mark.parametrize(("verb", "make"), CASES)
def test_no_body_takes_long(client: Client, verb: str, make: Callable[[], bytes]) -> None:
    """4 million keys took 9 to 14 s, 199,000 tiny Nodes 4 to 7 s."""
    body = made(make)
    assert len(body) <= _LIMIT
    began = time.process_time()
    status = client.post(f"/{verb}", body).status_code
    took = time.process_time() - began
    assert status in (200, 400, 413)
    assert took < SECONDS
