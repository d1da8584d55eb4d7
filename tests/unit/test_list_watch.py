"""The list/watch protocol, without sockets and without waiting."""

import pytest

from extender.cluster.list_watch import (
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

LIVED = 5.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def never() -> float:
    return 0.0


def always() -> float:
    return 1.0


def protocol(*, watch_list: bool = False) -> ListWatch:
    return ListWatch(Backoff(Clock(), never), watch_list=watch_list, chance=never)


def watching(*, watch_list: bool = False) -> ListWatch:
    following = protocol(watch_list=watch_list)
    if following.step is Step.LIST:
        assert following.page_received("10", "")
    else:
        following.initial_events_ended("10")
    return following


def test_the_delay_doubles_up_to_30_seconds() -> None:
    backoff = Backoff(Clock(), never)
    assert [backoff.delay() for _ in range(7)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, MAX_DELAY]


def test_chance_adds_to_the_delay() -> None:
    assert FIRST_DELAY < Backoff(Clock(), always).delay() <= 2 * FIRST_DELAY


def test_the_delay_begins_anew_after_two_quiet_minutes() -> None:
    clock = Clock()
    backoff = Backoff(clock, never)
    for _ in range(5):
        backoff.delay()
    clock.now += QUIET_SECONDS - 1
    assert backoff.delay() > FIRST_DELAY
    clock.now += QUIET_SECONDS + 1
    assert backoff.delay() == FIRST_DELAY


def test_a_list_is_asked_for_in_pages_of_the_newest_state() -> None:
    assert protocol().request().query == {"limit": "500"}


def test_the_next_page_is_asked_for_by_its_token() -> None:
    following = protocol()
    assert not following.page_received("10", "token")
    assert following.request().query == {"limit": "500", "continue": "token"}
    assert following.page_received("10", "")
    assert following.request().query["resourceVersion"] == "10"


def test_a_watch_asks_for_bookmarks_and_its_end() -> None:
    assert watching().request().query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "10",
    }


def test_a_watch_list_says_what_it_is() -> None:
    query = protocol(watch_list=True).request().query
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query


@pytest.mark.parametrize("reason", [Reason.CLOSED, Reason.RESET, Reason.SILENT])
def test_a_watch_that_ends_goes_on_where_it_was_at_once(reason: Reason) -> None:
    following = watching()
    following.moved("12")
    assert following.ended(Ending(reason, lived=LIVED)) == 0
    assert following.request().query["resourceVersion"] == "12"
    assert following.step is Step.WATCH


def test_a_watch_that_ends_within_a_second_backs_off() -> None:
    following = watching()
    assert following.ended(Ending(Reason.CLOSED, lived=0.5)) == FIRST_DELAY
    assert following.step is Step.WATCH


@pytest.mark.parametrize("reason", [Reason.THROTTLED, Reason.UNREACHABLE])
def test_a_watch_that_is_not_let_in_tries_the_same_again(reason: Reason) -> None:
    following = watching()
    assert following.ended(Ending(reason)) == FIRST_DELAY
    assert following.step is Step.WATCH


@pytest.mark.parametrize(
    "reason", [Reason.STATUS, Reason.GARBAGE, Reason.REFUSED, Reason.EXCEPTION]
)
def test_any_other_error_of_a_watch_lists_again(reason: Reason) -> None:
    following = watching()
    assert following.ended(Ending(reason)) == FIRST_DELAY
    assert following.step is Step.LIST


def test_the_first_410_costs_no_wait_and_the_second_does() -> None:
    following = watching()
    assert following.ended(Ending(Reason.EXPIRED)) == 0
    assert following.step is Step.LIST
    following.page_received("20", "")
    assert following.ended(Ending(Reason.EXPIRED)) == FIRST_DELAY


def test_the_version_never_goes_back() -> None:
    following = watching()
    following.moved("9" * 40)
    following.moved("11")
    assert following.resource_version == "9" * 40


def test_a_list_sets_the_version_even_back() -> None:
    following = watching()
    following.moved("500")
    following.ended(Ending(Reason.EXPIRED))
    following.page_received("7", "")
    assert following.resource_version == "7"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_page_that_fails_is_asked_for_again(status: int) -> None:
    following = protocol()
    following.page_received("10", "token")
    reason = Reason.THROTTLED if status == 429 else Reason.STATUS
    following.ended(Ending(reason, status=status))
    assert following.request().query["continue"] == "token"


def test_a_page_that_fails_for_ever_begins_the_list_anew() -> None:
    following = protocol()
    following.page_received("10", "token")
    for _ in range(3):
        following.ended(Ending(Reason.STATUS, status=500))
    assert following.request().is_first_page


def test_an_expired_token_begins_the_list_anew_at_once() -> None:
    following = protocol()
    following.page_received("10", "token")
    assert following.ended(Ending(Reason.EXPIRED)) == 0
    assert following.request().is_first_page


def test_the_server_s_wish_for_patience_is_granted_within_reason() -> None:
    assert protocol().ended(Ending(Reason.THROTTLED, retry_after=7.0)) == 7
    assert protocol().ended(Ending(Reason.THROTTLED, retry_after=1e9)) == MAX_RETRY_AFTER


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending(Reason.STATUS, status=422), id="not supported"),
        pytest.param(Ending(Reason.REFUSED, status=403), id="forbidden"),
        pytest.param(Ending(Reason.STATUS, status=500), id="broken"),
        pytest.param(Ending(Reason.NO_INITIAL_EVENTS_END, events=9), id="no bookmark"),
        pytest.param(Ending(Reason.CLOSED), id="closed at once"),
        pytest.param(Ending(Reason.GARBAGE), id="garbage"),
    ],
)
def test_a_watch_list_that_does_not_work_falls_back_to_a_list(ending: Ending) -> None:
    following = protocol(watch_list=True)
    assert following.ended(ending) == 0
    assert following.step is Step.LIST


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(Ending(Reason.THROTTLED, status=429), id="throttled"),
        pytest.param(Ending(Reason.UNREACHABLE), id="unreachable"),
        pytest.param(Ending(Reason.RESET, events=3), id="reset in the middle"),
        pytest.param(Ending(Reason.CLOSED, events=3), id="closed in the middle"),
    ],
)
def test_a_watch_list_that_was_disturbed_is_begun_anew(ending: Ending) -> None:
    following = protocol(watch_list=True)
    assert following.ended(ending) == FIRST_DELAY
    assert following.step is Step.STREAM


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
