"""Takes the pictures of the documentation: pages of the sample cluster.

python -m tests.pictures
"""

from tests.integration.browsers import browser
from tests.processes import ROOT, SAMPLES, serving

PICTURES = ROOT / "docs" / "pictures"

#: By file: the page, the height that shows what it is about, and whether the window is dark.
PAGES = {
    "overview-light": ("/", 1420, False),
    "explain-dark": ("/explain?pod=default/kata", 820, True),
}

if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        refused = (SAMPLES / "requests" / "no-match.json").read_bytes()
        server.post("/filter", refused)
        for name, (path, height, dark) in PAGES.items():
            with browser(width=1180, height=height, dark=dark) as chrome:
                chrome.get(server.url + path)
                file = PICTURES / f"{name}.png"
                chrome.save_screenshot(str(file))
                print(file.relative_to(ROOT), flush=True)
