"""The headers by which a kubeconfig's user impersonates another one: `as`, `as-groups` and so on.

The kubernetes package leaves these fields out, and would ask with all the user's own rights.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

#: The characters that the name of a header may have (RFC 9110, token), except "%", which escapes.
_PLAIN: Final = "!#$&'*+^`|"

Headers = tuple[tuple[str, str], ...]


def impersonation_of(user: Mapping[str, Any]) -> Headers:
    """The headers of a user in a kubeconfig, one for each group; none without impersonation.

    As NewImpersonatingRoundTripper of client-go's transport/round_trippers.go, v1.36.2. Raises
    ValueError, which names the field.
    """
    name, uid = _text(user, "as"), _text(user, "as-uid")
    groups = _texts(user.get("as-groups"), "as-groups")
    extra = user.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise ValueError("as-user-extra: expected a mapping")
    if not name:
        if uid or groups or extra:
            raise ValueError("as-uid, as-groups and as-user-extra mean nothing without as")
        return ()
    return (
        ("Impersonate-User", name),
        *((("Impersonate-Uid", uid),) if uid else ()),
        *(("Impersonate-Group", each) for each in groups),
        *(
            (f"Impersonate-Extra-{quote(str(key), safe=_PLAIN)}", each)
            for key, values in extra.items()
            for each in _texts(values, f"as-user-extra.{key}")
        ),
    )


def _text(user: Mapping[str, Any], field: str) -> str:
    return _value(user.get(field) or "", field)


def _texts(values: Any, field: str) -> list[str]:
    if values is not None and not isinstance(values, list):
        raise ValueError(f"{field}: expected a list")
    return [_value(each, field) for each in values or ()]


def _value(value: Any, field: str) -> str:
    """UTF-8 as http.client sends it: a byte for each character."""
    if not isinstance(value, str):
        raise ValueError(f"{field}: expected a text")
    if not value.isprintable():
        raise ValueError(f"{field}: has characters that no header can have")
    return value.encode("utf-8").decode("latin-1")
