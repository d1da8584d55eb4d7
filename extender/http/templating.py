"""What all pages share: how a template is filled, and what a page's address asks for."""

import math
from collections.abc import Sequence
from typing import Any, Final

from flask import Response, render_template, request

from extender import __version__
from extender.wire.bodies import BadRequestError

#: How often a page refreshes itself; seconds.
REFRESH_SECONDS: Final = 5

#: The longest search text that is read: no name is longer.
_MAX_TEXT: Final = 253
_MAX_PAGE_DIGITS: Final = 6


def render(template: str, **values: Any) -> str:
    """A template filled; all values are escaped."""
    return render_template(template, version=__version__, refresh_seconds=REFRESH_SECONDS, **values)


def page(template: str, **values: Any) -> Response:
    """The answer that has a filled template."""
    return Response(render(template, **values), mimetype="text/html")


def asked_text(name: str) -> str:
    return request.args.get(name, "")[:_MAX_TEXT]


def page_of(items: Sequence[Any], size: int) -> tuple[int, int, Sequence[Any]]:
    """(number of the page that is asked for, number of pages, what is on it)."""
    asked = request.args.get("page", "1")
    if not (asked.isascii() and asked.isdigit() and len(asked) <= _MAX_PAGE_DIGITS):
        raise BadRequestError("page: expected a whole number")
    count = max(1, math.ceil(len(items) / size))
    page = min(max(1, int(asked)), count)
    return page, count, items[(page - 1) * size : page * size]
