"""The pages in a real browser: they load, follow the cluster, and can be used by everybody."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from loadtest.generator import Cluster, ClusterSpec
from tests.integration.browsers import PATIENCE, browser, complaints, faults, hosts_asked, script
from tests.processes import SAMPLES, Server, serving


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def sample() -> Iterator[Server]:
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        yield server


def shows(chrome: Chrome, text: str) -> bool:
    return text in chrome.find_element(By.TAG_NAME, "main").text


def wait_for(chrome: Chrome, text: str) -> None:
    WebDriverWait(chrome, PATIENCE).until(lambda _: shows(chrome, text))


def test_the_overview_loads_and_asks_nobody_else(chrome: Chrome, sample: Server) -> None:
    hosts_asked(chrome)
    chrome.get(f"{sample.url}/")
    assert shows(chrome, "5 RuntimeClasses, 13 nodes, 5 pools.")
    assert chrome.find_element(By.TAG_NAME, "body").value_of_css_property("margin") == "0px"
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


def test_a_pasted_pod_is_explained(chrome: Chrome, sample: Server) -> None:
    chrome.get(f"{sample.url}/explain")
    chrome.find_element(By.ID, "pod-text").send_keys(
        "kind: Pod\nmetadata: {name: '<b>new</b>'}\nspec: {runtimeClassName: kata}\n"
    )
    chrome.find_element(By.XPATH, '//form[@class="paste"]//button').click()
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
        state = script(
            chrome, "return [window.opened, document.activeElement.textContent, scrollY]"
        )
        assert state == [True, "gvisor", place]
        assert complaints(chrome) == []


def test_a_service_that_has_gone_is_said(chrome: Chrome) -> None:
    with serving(SAMPLES / "cluster") as server:
        chrome.get(f"{server.url}/")
    wait_for(chrome, "This page is no longer up to date")
    complaints(chrome)  # the browser's own, of the connections that failed


@pytest.mark.parametrize(
    "path", ["/", "/nodes", "/nodes/kata-3", "/runtimeclasses/kata", "/explain?pod=default/kata"]
)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_serious_fault(sample: Server, path: str, dark: bool) -> None:
    with browser(dark=dark) as chrome:
        chrome.get(sample.url + path)
        assert faults(chrome) == []


def test_a_narrow_window_is_enough(sample: Server) -> None:
    with browser(width=360, height=640) as chrome:
        for path in ("/", "/nodes", "/runtimeclasses/kata", "/explain?pod=default/kata"):
            chrome.get(sample.url + path)
            over = script(chrome, "return document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, path


def test_a_large_cluster_is_painted_at_once(chrome: Chrome, tmp_path: Path) -> None:
    Cluster(ClusterSpec(65_000, 40, 1_000)).write_manifest(tmp_path / "cluster.json")
    with serving(tmp_path) as server:
        chrome.get(f"{server.url}/")
        assert shows(chrome, "1,000 RuntimeClasses, 65,000 nodes")
        size = script(
            chrome, "return performance.getEntriesByType('navigation')[0].decodedBodySize"
        )
        paint = script(
            chrome, "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
    assert size < 300_000
    print(f"first paint after {paint:.0f} ms, page of {size / 1000:.0f} kB")
