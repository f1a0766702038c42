"""The documentation as a site: it builds without a network, no link is dead, and its search finds an error text."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

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


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_search_in_the_browser_finds_an_error_text(site, tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/index.html?q=unable+to+allocate+shared+memory"
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=20000", "--dump-dom", address,
        ]  # fmt: skip
        page = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    finally:
        server.shutdown()
        server.server_close()

    results = page.partition("md-search-result__list")[2]
    assert "rules/shm-exhausted.html" in results
