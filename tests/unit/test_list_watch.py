"""The list/watch protocol, without sockets and without waiting."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.api.list_watch import (
    FIRST_DELAY,
    MAX_DELAY,
    MAX_RETRY_AFTER,
    QUIET_SECONDS,
    Backoff,
    Ending,
    ListWatch,
    Reason,
    Step,
)
from tests.cases_file import cases
from tests.clocks import Clock


def never() -> float:
    return 0.0


def always() -> float:
    return 1.0


def protocol(*, watch_list: bool = False) -> ListWatch:
    return ListWatch(Backoff(Clock(), never), watch_list=watch_list, chance=never)


def watching(*, watch_list: bool = False) -> ListWatch:
    return synced(protocol(watch_list=watch_list), "10")


def synced(following: ListWatch, version: str) -> ListWatch:
    if following.step is Step.LIST:
        assert following.page_received(version, "")
    else:
        following.initial_events_ended(version)
    return following


LONGEST = MAX_DELAY / 1.25


def test_the_delay_doubles_up_to_what_chance_makes_30_seconds_of() -> None:
    least, most = (Backoff(Clock(), chance) for chance in (never, always))
    doubling = [0.8, 1.6, 3.2, 6.4, 12.8, LONGEST, LONGEST]
    assert [least.delay(Reason.UNREACHABLE) for _ in range(7)] == doubling
    assert [most.delay(Reason.UNREACHABLE) for _ in range(7)] == [1.25 * each for each in doubling]


@given(
    failures=st.lists(
        st.tuples(st.sampled_from(Reason), st.booleans(), st.floats(0, 300)), max_size=40
    ),
    chance=st.floats(0, 1),
)
def test_no_delay_is_over_30_seconds(
    failures: list[tuple[Reason, bool, float]], chance: float
) -> None:
    """For all failures and whatever chance adds: 0 <= delay <= MAX_DELAY."""
    clock = Clock()
    backoff = Backoff(clock, lambda: chance)
    for reason, first_free, seconds in failures:
        clock.now += seconds
        assert 0 <= backoff.delay(reason, first_free=first_free) <= MAX_DELAY


def test_the_delay_begins_anew_after_two_quiet_minutes() -> None:
    clock = Clock()
    backoff = Backoff(clock, never)
    for _ in range(5):
        backoff.delay(Reason.STATUS)
    clock.now += QUIET_SECONDS - 1
    assert backoff.delay(Reason.STATUS) > FIRST_DELAY
    clock.now += QUIET_SECONDS + 1
    assert backoff.delay(Reason.STATUS) == FIRST_DELAY


AWAY = (
    Ending(Reason.UNREACHABLE),
    Ending(Reason.SILENT),
    Ending(Reason.STATUS, status=503),
    Ending(Reason.REFUSED, status=403),
    Ending(Reason.RESET),
)
outages = st.lists(st.sampled_from(AWAY), max_size=12)


@given(outage=outages, watch_list=st.booleans())
def test_after_any_outage_a_410_costs_no_wait(outage: list[Ending], watch_list: bool) -> None:
    """For all outages of a watch: after a 410 from the recovered server, list at once."""
    following = watching(watch_list=watch_list)
    for ending in outage:
        following.ended(ending)
    if following.step is not Step.WATCH:
        synced(following, "20")
    assert following.ended(Ending(Reason.EXPIRED, lived=0.1)) == 0
    assert following.step in (Step.LIST, Step.STREAM)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending(Reason.GARBAGE, lived=0.1), id="garbage"),
        pytest.param(Ending(Reason.STATUS, status=500), id="broken"),
        pytest.param(Ending(Reason.EXPIRED, lived=0.1), id="expired"),
    ],
)
def test_lists_that_work_do_not_hide_that_no_watch_does(ending: Ending) -> None:
    """Otherwise 65,000 nodes would be listed each second."""
    following = watching()
    waited = []
    for _ in range(8):
        waited.append(following.ended(ending))
        synced(following, "20")
    assert waited[-1] == LONGEST
    assert waited == sorted(waited)


def paging() -> ListWatch:
    """After the first page of a list."""
    following = protocol()
    following.page_received("10", "token")
    return following


START: dict[str, Callable[[], ListWatch]] = {
    "watch": watching,
    "page": paging,
    "stream": lambda: protocol(watch_list=True),
}


@cases
def test_what_is_asked_after_each_ending_and_when(
    start: str, reason: str, ending: dict[str, float], delay: float, then: str
) -> None:
    following = START[start]()
    if start == "watch":
        following.moved("12")
    assert following.ended(Ending(Reason[reason], **ending)) == delay  # type: ignore[arg-type]
    query = following.request().query
    if "watch" in query:
        stream = following.step is Step.STREAM
        assert then == ("stream" if stream else f"watch={query['resourceVersion']}")
    else:
        assert then == (f"continue={query['continue']}" if "continue" in query else "list")


def test_the_second_410_in_a_row_costs_a_wait() -> None:
    following = watching()
    assert following.ended(Ending(Reason.EXPIRED)) == 0
    following.page_received("20", "")
    assert following.ended(Ending(Reason.EXPIRED)) == FIRST_DELAY
    following = protocol()
    assert [following.ended(Ending(Reason.EXPIRED)) for _ in range(3)] == [0, 0.8, 1.6]


def test_the_version_goes_back_with_a_list_and_never_with_an_event() -> None:
    following = watching()
    following.moved("9" * 40)
    following.moved("11")
    assert following.resource_version == "9" * 40
    following.ended(Ending(Reason.EXPIRED))
    following.page_received("7", "")
    assert following.resource_version == "7"


def test_the_server_s_wish_for_patience_is_granted_within_reason() -> None:
    assert protocol().ended(Ending(Reason.THROTTLED, retry_after=7.0)) == 7
    assert protocol().ended(Ending(Reason.THROTTLED, retry_after=1e9)) == MAX_RETRY_AFTER


def test_a_server_without_watch_lists_is_asked_once() -> None:
    following = protocol(watch_list=True)
    following.ended(Ending(Reason.STATUS, status=422))
    following.page_received("10", "")
    following.ended(Ending(Reason.EXPIRED))
    assert following.step is Step.LIST


def test_an_expired_watch_streams_from_where_it_was() -> None:
    following = watching(watch_list=True)
    following.moved("11")
    following.ended(Ending(Reason.EXPIRED))
    assert following.step is Step.STREAM
    assert following.request().query["resourceVersion"] == "11"
