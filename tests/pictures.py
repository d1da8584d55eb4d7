"""Takes the pictures of the documentation: the pages of the sample cluster, light and dark.

python -m tests.pictures
"""

import sys

from tests.integration.browsers import browser
from tests.processes import ROOT, SAMPLES, serving

PICTURES = ROOT / "docs" / "pictures"

#: By file, the page.
PAGES = {"overview": "/", "explain": "/explain?pod=default/kata"}


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        refused = (SAMPLES / "requests" / "no-match.json").read_bytes()
        server.post("/filter", refused)
        for dark in (False, True):
            with browser(width=1100, height=820, dark=dark) as chrome:
                for name, path in PAGES.items():
                    chrome.get(server.url + path)
                    file = PICTURES / f"{name}-{'dark' if dark else 'light'}.png"
                    chrome.save_screenshot(str(file))
                    print(file.relative_to(ROOT), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
