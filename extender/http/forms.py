"""The text that a browser sends from the form of /explain, read within bounds.

Flask's own reader takes 27 s and 1.3 GB for the fields of a body of 32 MB, and writes the files of
other forms to a disk that a container may not have.
"""

from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl

from flask import Request

from extender.http.exchange import Refusal

#: The content type of a form without files.
FORM: Final = "application/x-www-form-urlencoded"

#: A text of 1.5 MB, which is three bytes for each that is no letter, and its name.
MAX_FORM_BYTES: Final = 4_600_000
_MAX_FIELDS: Final = 16


def form_text(request: Request, name: str) -> str:
    """The field of that name, "" where there is none. Raises Refusal."""
    if request.mimetype != FORM:
        return ""
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
    return next((value for key, value in fields if key == name), "")
