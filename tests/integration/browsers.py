"""A real browser, headless: Debian's chromium with its chromedriver; tests are skipped without."""

import contextlib
import json
import shutil
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.processes import ROOT

#: Where `make axe` puts it.
_AXE: Final = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

#: Seconds that a page may take to show the expected text; it refreshes every five.
PATIENCE = 30.0


@contextlib.contextmanager
def browser(*, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Chrome]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = ChromeOptions()
    options.binary_location = program
    for flag in ("headless=new", "no-sandbox", "disable-gpu", f"window-size={width},{height}"):
        options.add_argument(f"--{flag}")
    if dark:
        options.add_argument("--force-dark-mode")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options=options, service=ChromeService(driver))
    try:
        chrome.set_page_load_timeout(PATIENCE)
        # A window is 500 pixels wide at least.
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield chrome
    finally:
        chrome.quit()


def _log(chrome: Chrome, kind: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = chrome.get_log(kind)  # type: ignore[no-untyped-call]
    return entries


def complaints(chrome: Chrome) -> list[str]:
    """What the browser wrote to its console."""
    return [entry["message"] for entry in _log(chrome, "browser")]


def hosts_asked(chrome: Chrome) -> set[str]:
    """The hosts of all requests since the last call."""
    events: list[dict[str, Any]] = [
        json.loads(entry["message"])["message"] for entry in _log(chrome, "performance")
    ]
    addresses = (
        urlsplit(event["params"]["request"]["url"])
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    )
    return {address.netloc for address in addresses if address.scheme != "data"}


def faults(chrome: Chrome) -> list[str]:
    """All faults that axe-core finds in the page: the rule and the element."""
    if not _AXE.exists():
        pytest.skip("axe-core is not there: make axe")
    script(chrome, _AXE.read_text())
    found = chrome.execute_async_script("axe.run().then((found) => arguments[0](found.violations))")
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def script(chrome: Chrome, text: str, *arguments: object) -> Any:
    """The result of a script that the page runs."""
    return chrome.execute_script(text, *arguments)
