"""A cluster for a whole module, whose nodes have never heard of unstuck, and storage that it reads from."""

from __future__ import annotations

import subprocess
import sysconfig
import threading
import venv
from pathlib import Path

import pytest
from ray_heads import Head
from storage import serving


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Everything that this one has, but for unstuck and msgspec."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder, symlinks=True, with_pip=False)
    there = next(folder.glob("lib/python*/site-packages"))
    for one in Path(sysconfig.get_path("purelib")).iterdir():
        if "unstuck" not in one.name and not one.name.startswith("msgspec"):
            (there / one.name).symlink_to(one)
    for missing in ("unstuck", "msgspec"):
        assert subprocess.run(
            [folder / "bin/python", "-Ec", f"import {missing}"], check=False, stderr=subprocess.DEVNULL
        ).returncode
    return folder / "bin/python"


@pytest.fixture(scope="module")
def running(python):
    head = Head(python)
    yield head
    head.end()


@pytest.fixture
def head(running, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", running.address)
    return running


@pytest.fixture
def storage(tmp_path):
    server = serving(tmp_path)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.go.set()
    server.shutdown()
    server.server_close()
