"""The documentation as a site: it builds without a network, no link is dead, and its search finds an error text."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120  # seconds for a browser, on a machine that is busy


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_has_no_dead_link_and_loads_nothing_from_elsewhere(site):
    """mkdocs --strict has looked at the links and their anchors."""
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(https?:)?//|<link[^>]* href="(https?:)?//[^"]*"[^>]*stylesheet'
    )

    pages = list(site.rglob("*.html"))

    assert len(pages) > 150
    assert [page.name for page in pages if loaded.search(page.read_text())] == []


def test_a_page_that_is_linked_from_outside_the_docs_names_the_file(site):
    assert "benchmarks/README.md" in (site / "check.html").read_text()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def found(site):
    """The pages that a search in a real browser finds, in their order."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def look_for(text):
            page = browser.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html?q={urllib.parse.quote(text)}")
            links = page.locator(".md-search-result__list a.md-search-result__link")
            links.first.wait_for(state="attached", timeout=PATIENCE * 1000)
            names = [urllib.parse.urlsplit(link.get_attribute("href")).path.lstrip("/") for link in links.all()]
            page.close()
            return list(dict.fromkeys(names))

        yield look_for
        browser.close()
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("unable to allocate shared memory", "rules/shm-exhausted.html"),
        ("OSError: [Errno 24] Too many open files", "rules/fd-exhausted-tensors-kept.html"),
        ("DataLoader worker (pid(s) 15319) exited unexpectedly", "rules/worker-exited-silently.html"),
        ("缓冲区", "zh/first-batch.html"),
    ],
)
def test_a_search_in_the_browser_finds_the_page_of_a_pasted_text_first(found, text, page):
    assert found(text)[0] == page
