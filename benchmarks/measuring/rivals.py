"""TraceML, in an environment of its own: torch first and by plain pip, as in ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from measuring.children import Failed

PACKAGE = "traceml-ai"


def traceml(folder, torch, tell):
    """The folder with TraceML's programs, installed at first use. Raises Failed with the reason if it cannot be had."""
    folder = Path(folder).resolve()
    programs = folder / "bin"
    if (programs / "traceml").exists():
        return programs
    if folder.exists():
        raise Failed(f"{folder.name} exists but has no TraceML in it; remove it or name another with --rivals-dir")
    tell(f"installing TraceML into {folder.name} (once, a few minutes)")
    try:
        _call([sys.executable, "-m", "venv", str(folder)])
        for package in (f"torch=={torch}", PACKAGE):
            _call([str(programs / "python"), "-m", "pip", "install", "--quiet", package])
    except BaseException:  # Ctrl-C too: half an environment helps nobody
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return programs


def version(programs):
    command = f"from importlib.metadata import version; print(version({PACKAGE!r}))"
    return subprocess.run(
        [str(programs / "python"), "-c", command], capture_output=True, text=True, check=True
    ).stdout.strip()


def _call(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = errors or done.stderr.strip().splitlines() or ["it said nothing"]
        raise Failed(f"{' '.join(command[-2:])}: {said[-1][:200]}")
