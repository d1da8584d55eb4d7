"""Shared by all pages: filling a template, reading query parameters and a form."""

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from flask import Response, render_template, request

from extender import __version__
from extender.http.answers import Refusal
from extender.model.errors import BadRequestError

#: How often a page refreshes itself; seconds.
REFRESH_SECONDS: Final = 5

#: The length to which a search text is cut: no name is longer.
_MAX_TEXT: Final = 253
_MAX_PAGE_DIGITS: Final = 6


def page(template: str, **values: Any) -> Response:
    """A filled template; all values are escaped."""
    made = render_template(template, version=__version__, refresh_seconds=REFRESH_SECONDS, **values)
    return Response(made, mimetype="text/html")


#: (seconds, name) of each unit of time, the longest first.
_UNITS: Final = ((86_400, "days"), (3_600, "h"), (60, "min"))


def ago(seconds: float) -> str:
    """The age in coarse units, so that most pages are unchanged when they are refreshed."""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)} {name} ago"
    return "just now"


def asked_text(name: str) -> str:
    return request.args.get(name, "")[:_MAX_TEXT]


def page_of(items: Sequence[Any], size: int) -> tuple[int, int, Sequence[Any]]:
    """(number of the requested page, number of pages, items of the requested page)."""
    asked = request.args.get("page", "1")
    if not (asked.isascii() and asked.isdigit() and len(asked) <= _MAX_PAGE_DIGITS):
        raise BadRequestError("page: expected a whole number")
    count = max(1, math.ceil(len(items) / size))
    page = min(max(1, int(asked)), count)
    return page, count, items[(page - 1) * size : page * size]


#: The content type of a form without files.
FORM: Final = "application/x-www-form-urlencoded"

#: A text of 1.5 MB, URL-encoded into three bytes for each that is no letter, and its field's name.
MAX_FORM_BYTES: Final = 4_600_000
_MAX_FIELDS: Final = 16


def form_fields() -> Mapping[str, str]:
    """The first field of each name. Raises Refusal."""
    if request.mimetype != FORM:
        return {}
    body = request.get_data()
    if len(body) > MAX_FORM_BYTES:
        text = f"the form is over the limit of {MAX_FORM_BYTES:,} bytes"
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    try:
        fields = parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"more than {_MAX_FIELDS} fields") from None
    return dict(reversed(fields))
