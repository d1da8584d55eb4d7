"""RFC 6902 as far as the webhook uses it: add and replace, with strict paths."""

import copy
from typing import Any


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """The patched document; raises where a JSON Patch library would."""
    result = copy.deepcopy(document)
    for operation in operations:
        assert set(operation) == {"op", "path", "value"}
        *parents, last = [_unescape(part) for part in operation["path"].split("/")[1:]]
        target = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        value = copy.deepcopy(operation["value"])
        if isinstance(target, list):
            assert (operation["op"], last) == ("add", "-")
            target.append(value)
            continue
        assert isinstance(target, dict)
        assert operation["op"] in ("add", "replace")
        assert operation["op"] == "add" or last in target
        target[last] = value
    return result


def _unescape(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
