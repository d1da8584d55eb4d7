"""Tolerations, taints, handlers, quantities: the parts that several objects have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from extender.objects import Handler, Taint, Toleration
from extender.validation.quantity import trimmed_quantity


class RawToleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class RawTimedToleration(RawToleration, rename="camel", gc=False):
    """With tolerationSeconds, which matching does not look at and merging does."""

    toleration_seconds: int | None = None


class RawTaint(Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class _HandlerFeatures(Struct, rename="camel"):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class RawHandler(Struct):
    name: str | None = None
    features: _HandlerFeatures | None = None


_NO_TOLERATION: Final = RawToleration()

_NO_TIMED_TOLERATION: Final = RawTimedToleration()

_NO_TAINT: Final = RawTaint()

_NO_HANDLER: Final = RawHandler()


def tolerations_of(raw: Sequence[RawToleration | None] | None) -> tuple[Toleration, ...]:
    if not raw:
        return ()
    found = []
    for item in raw:  # a loop costs half of what a generator does
        each = item or _NO_TOLERATION
        found.append(
            Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "")
        )
    return tuple(found)


def timed_tolerations_of(raw: Iterable[RawTimedToleration | None]) -> Iterator[Toleration]:
    """Tolerations with their seconds, one by one: a pod may carry half a million."""
    for item in raw:
        each = item or _NO_TIMED_TOLERATION
        yield Toleration(
            each.key or "",
            each.operator or "",
            each.value or "",
            each.effect or "",
            each.toleration_seconds,
        )


def taints_of(raw: list[RawTaint | None] | None) -> tuple[Taint, ...]:
    return tuple(
        Taint(each.key or "", each.value or "", each.effect or "")
        for each in (item or _NO_TAINT for item in raw or ())
    )


def handlers_of(raw: list[RawHandler | None] | None) -> frozenset[Handler]:
    """A node's status.runtimeHandlers as a set, since some runtimes report them in changing order.

    Of several with one name the first is kept, which is the one that the kubelet uses
    (HandlerSupportsUserNamespaces in pkg/kubelet/kubelet_getters.go, v1.36.2).
    """
    handlers: dict[str, Handler] = {}
    for item in raw or ():
        each = item or _NO_HANDLER
        features = each.features or _HandlerFeatures()
        name = each.name or ""
        if name not in handlers:
            handlers[name] = Handler(
                name, bool(features.user_namespaces), bool(features.recursive_read_only_mounts)
            )
    return frozenset(handlers.values())


#: Amounts by resource, as they may be written.
Quantities = dict[str, str | int | float | None]


def quantities_of(raw: Quantities | None) -> Mapping[str, str]:
    """Amounts by resource, as they were written, without the blanks around them."""
    return {
        name: "0" if value is None else trimmed_quantity(str(value))
        for name, value in (raw or {}).items()
    }
