"""Starts the run's watcher from inside, where no `unstuck run` stands above."""

from __future__ import annotations

import os
import sys

from . import run_folder
from .process import process
from .stacks import stacks


def begin() -> None:
    """Start a detached watcher, unless the launcher is one already. It elects itself: a second one leaves at once."""
    python = os.environ.get(run_folder.WATCHER)
    folder = os.environ.get(run_folder.FOLDER)
    if not python or not folder or process.recorder is None:
        return
    import subprocess  # torch imports it anyway

    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")}
    environment["UNSTUCK"] = "0"
    environment["PYTHONPATH"] = os.environ.get("UNSTUCK_PYTHONPATH", "")
    about = [folder, str(process.pid), process.folder or "", *sys.orig_argv]
    # The shell goes at once, so the watcher is nobody's child here and leaves no zombie.
    started = subprocess.run(
        ["/bin/sh", "-c", '"$@" </dev/null >/dev/null & echo $!', "sh", python, "-m", "unstuck.watching", *about],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=sys.__stderr__ if sys.__stderr__ is not None else subprocess.DEVNULL,
        check=False,
    )
    os.environ[run_folder.WATCHER_PID] = started.stdout.decode().strip()
    stacks.permit()
