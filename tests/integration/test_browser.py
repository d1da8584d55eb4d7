"""The pages in a real browser: they load, follow the cluster, and can be used by everybody."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.integration.browsers import PATIENCE, browser, complaints, faults, hosts_asked, script
from tests.processes import SAMPLES, Server, serving, until


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with browser() as opened:
        yield opened


def shows(chrome: Chrome, text: str) -> bool:
    # One step finds and reads the text: between two steps the browser may load another page.
    return text in str(script(chrome, "return document.body?.innerText ?? ''"))


def filtered(chrome: Chrome) -> object:
    """The CSS filter of the page, read in one step, too."""
    return script(chrome, "return getComputedStyle(document.querySelector('main')).filter")


def wait_for(chrome: Chrome, text: str) -> None:
    WebDriverWait(chrome, PATIENCE).until(lambda _: shows(chrome, text))


def test_the_overview_loads_and_asks_nobody_else(chrome: Chrome, sample: Server) -> None:
    hosts_asked(chrome)
    chrome.get(f"{sample.url}/")
    assert shows(chrome, "5 RuntimeClasses, 13 nodes, 5 pools")
    for element, css, value in (("body", "margin", "0px"), ("table.grid td", "padding", "0px")):
        found = chrome.find_element(By.CSS_SELECTOR, element)
        assert found.value_of_css_property(css) == value
    assert hosts_asked(chrome) == {urlsplit(sample.url).netloc}
    assert complaints(chrome) == []


def test_a_cell_opens_its_reasons_by_the_keyboard(chrome: Chrome, sample: Server) -> None:
    chrome.get(f"{sample.url}/")
    cell = chrome.find_element(By.CSS_SELECTOR, 'td.some a[href*="kata?pool="]')
    cell.send_keys(Keys.ENTER)
    wait_for(chrome, 'no runtime handler "kata-qemu"')
    chrome.find_element(By.LINK_TEXT, "kata-3").click()
    wait_for(chrome, "Node kata-3")
    assert complaints(chrome) == []


def stops(chrome: Chrome) -> Iterator[WebElement]:
    """The elements that the Tab key reaches, from the start of the page to its end."""
    body = chrome.find_element(By.TAG_NAME, "body")
    at = body
    while True:
        ActionChains(chrome).send_keys(Keys.TAB).perform()
        at = chrome.switch_to.active_element
        if at == body:
            return
        yield at


PATHS = ["/", "/nodes", "/nodes/kata-3", "/runtimeclasses/kata", "/explain?pod=default/kata"]


@pytest.mark.parametrize("path", [*PATHS, "/explain"])
def test_every_place_is_reached_by_the_keyboard_in_order_and_is_seen_to_be(
    chrome: Chrome, sample: Server, path: str
) -> None:
    chrome.get(sample.url + path)
    every = "a[href], button, input, textarea, summary, [tabindex]"
    seen = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility())"
    expected = script(chrome, seen, every)
    reached = []
    for stop in stops(chrome):
        reached.append(stop)
        assert stop.value_of_css_property("outline-style") == "solid"
        place = stop.rect
        assert place["width"] > 0
        assert script(chrome, "return arguments[0].getBoundingClientRect().left", stop) >= 0
    assert reached == expected


def test_problems_unfold_and_a_fix_is_copied_by_the_keyboard(
    chrome: Chrome, sample: Server
) -> None:
    chrome.get(f"{sample.url}/")
    folded = chrome.find_element(By.CSS_SELECTOR, "#problems details:not([open]) summary")
    folded.send_keys(Keys.ENTER)
    assert folded.find_element(By.XPATH, "..").get_attribute("open") is not None
    button = chrome.find_element(By.CSS_SELECTOR, "#problems [data-copy]")
    button.send_keys(Keys.ENTER)
    assert button.text in ("Copied", "Selected")
    fix = script(chrome, "return getSelection().toString()")
    # As it was sent: a style may write its first letter as a capital.
    of_code = "return arguments[0].parentElement.querySelector('code').textContent"
    assert fix == script(chrome, of_code, button)
    assert complaints(chrome) == []


def test_the_search_and_the_form_work_by_the_keyboard(chrome: Chrome, sample: Server) -> None:
    chrome.get(f"{sample.url}/nodes")
    chrome.find_element(By.ID, "q").send_keys("KATA-", Keys.ENTER)
    wait_for(chrome, "3 nodes of 13")
    chrome.get(f"{sample.url}/explain")
    chrome.find_element(By.ID, "pod").send_keys("default/gvisor", Keys.ENTER)
    wait_for(chrome, "2 nodes can: gvisor-1, gvisor-2")


def test_a_pasted_pod_is_explained(chrome: Chrome, sample: Server) -> None:
    chrome.get(f"{sample.url}/explain")
    chrome.find_element(By.ID, "pod-text").send_keys(
        "kind: Pod\nmetadata: {name: '<b>new</b>'}\nspec: {runtimeClassName: kata}\n"
    )
    chrome.find_element(By.XPATH, '//form[@id="paste"]//button').click()
    wait_for(chrome, "Pod default/<b>new</b>")
    assert shows(chrome, "0/13 nodes are available")
    assert complaints(chrome) == []


def test_it_follows_the_cluster_without_a_reload(chrome: Chrome, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "cluster", tmp_path, dirs_exist_ok=True)
    with serving(tmp_path) as server:
        chrome.get(f"{server.url}/")
        first = chrome.find_element(By.CSS_SELECTOR, "#grid tbody a")
        script(chrome, "window.opened = true; arguments[0].focus()", first)
        place = script(chrome, "return scrollY")
        (tmp_path / "new.yaml").write_text(
            "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: new}\nhandler: runc\n"
        )
        wait_for(chrome, "6 RuntimeClasses, 13 nodes")
        facts = "return [window.opened, document.activeElement.textContent, scrollY]"
        assert script(chrome, facts) == [True, "gvisor", place]
        assert complaints(chrome) == []


def test_a_service_that_has_gone_is_said(chrome: Chrome) -> None:
    with serving(SAMPLES / "cluster") as server:
        chrome.get(f"{server.url}/")
    wait_for(chrome, "This page is no longer up to date")
    complaints(chrome)  # drops the browser's complaints about failed connections


#: With the page of an error.
ALL_PATHS = [*PATHS, "/explain", "/nodes/kata-33"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 420])
def test_axe_finds_no_fault(sample: Server, dark: bool, width: int) -> None:
    with browser(width=width, dark=dark) as chrome:
        for path in ALL_PATHS:
            chrome.get(sample.url + path)
            script(chrome, "document.querySelectorAll('details').forEach((e) => { e.open = true })")
            assert faults(chrome) == [], path


@pytest.mark.parametrize("dark", [False, True])
def test_a_page_that_is_out_of_date_says_so_and_is_grey_but_can_be_read(
    tmp_path: Path, dark: bool
) -> None:
    shutil.copytree(SAMPLES / "cluster", tmp_path, dirs_exist_ok=True)
    with serving(tmp_path) as server, browser(dark=dark) as chrome:
        chrome.get(f"{server.url}/")
        (tmp_path / "broken.yaml").write_text("kind: Node\nmetadata: {name: 'A B'}\n")
        wait_for(chrome, "Out of date: manifests: last reload failed")
        assert filtered(chrome) == "grayscale(1)"
        assert faults(chrome) == []
        (tmp_path / "broken.yaml").unlink()
        until(lambda: not shows(chrome, "Out of date"))
        assert filtered(chrome) == "none"


@pytest.mark.parametrize("width", [360, 420])
def test_in_a_narrow_window_tables_scroll_or_are_cards_and_the_page_does_not(
    sample: Server, width: int
) -> None:
    wider = "return document.documentElement.scrollWidth - innerWidth"
    with browser(width=width, height=640) as chrome:
        for path in ALL_PATHS:
            chrome.get(sample.url + path)
            assert script(chrome, wider) <= 0, path
        chrome.get(f"{sample.url}/")
        names = chrome.find_elements(By.CSS_SELECTOR, "#grid tbody th a")
        # In one line each, whatever the width.
        assert {each.rect["height"] < 32 for each in names} == {True}
        grid = chrome.find_element(By.CSS_SELECTOR, "#grid .scroll")
        script(chrome, "arguments[0].scrollLeft = 1000", grid)
        assert script(chrome, "return arguments[0].scrollLeft", grid) > 0
        first = chrome.find_element(By.CSS_SELECTOR, "#grid tbody th")
        left = "return arguments[0].getBoundingClientRect().left"
        assert script(chrome, left, first) >= script(chrome, left, grid)
