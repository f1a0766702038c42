"""Other Pythons of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest


def python(version: str) -> str:
    """One on the path, or one that pyenv keeps. Without one, the test is left out."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    try:
        kept = sorted(root.glob(f"versions/{version}.*/bin/python"))
    except OSError:  # it is another user's
        kept = []
    for found in filter(None, [*map(str, kept), shutil.which(f"python{version}")]):
        with contextlib.suppress(OSError):
            if subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
                return found
    return pytest.skip(f"no Python {version} here")
