"""Cuts the bytes of a watch into events, however they were cut on their way. No I/O."""

import json
from typing import Final

import msgspec

from extender.cluster.api_objects import Event
from extender.decoding.decoder import DecodeError

#: An object in etcd has 1.5 MiB at the most, and kube-apiserver refuses requests of 3 MiB: what is
#: ten times as large is no event.
MAX_EVENT_BYTES: Final = 32 * 2**20

#: How often the parser tries an event without a final line break before it waits for one.
_MAX_TRIES: Final = 64

_EVENTS: Final = msgspec.json.Decoder(Event)
_DOCUMENTS: Final = json.JSONDecoder()


class EventStream:
    """Takes bytes as they come and returns the events that are complete.

    kube-apiserver ends each event with a line break, but nothing promises that: an event is also
    complete when its JSON is. An event that is incomplete when the connection ends was cut off.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._tries = 0

    @property
    def is_between_events(self) -> bool:
        return not self._rest

    def feed(self, data: bytes) -> list[Event]:
        """Raises DecodeError for what is no event; the rest can't be read then."""
        *lines, rest = (self._rest + data).split(b"\n") if b"\n" in data else (self._rest + data,)
        events: list[Event] = []
        for line in lines:
            self._tries = 0
            if not line.isspace() and line:
                events += _events_of(line)
        self._rest = rest
        if rest:
            self._look_at_rest(events)
        if len(self._rest) > MAX_EVENT_BYTES:
            raise DecodeError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        return events

    def _look_at_rest(self, events: list[Event]) -> None:
        rest = self._rest
        if self._tries < _MAX_TRIES and (rest.rstrip().endswith(b"}") or b"}{" in rest):
            self._tries += 1
            complete, self._rest = _joined_events(rest)
            events += complete


def _events_of(line: bytes) -> list[Event]:
    try:
        return [_EVENTS.decode(line)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        events, rest = _joined_events(line)
        if rest:
            raise DecodeError(f"not an event: {error}") from None
        return events


def _joined_events(text: bytes) -> tuple[list[Event], bytes]:
    """Events without anything between them, and what follows the last complete one."""
    events = []
    # The grammar is ASCII, so decoded as Latin-1 the positions are those of the bytes.
    document = text.decode("latin-1")
    position = 0
    while position < len(text):
        try:
            _, end = _DOCUMENTS.raw_decode(document, position)
        except (ValueError, RecursionError):
            break
        try:
            events.append(_EVENTS.decode(text[position:end]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"not an event: {error}") from None
        following = text[end:].lstrip()
        position = len(text) - len(following)
    return events, text[position:]
