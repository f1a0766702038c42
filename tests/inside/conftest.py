"""Fixtures that run programs inside the recorder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running import TIMEOUT, Run, Zygote, environment, write


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    made = Zygote(tmp_path_factory.mktemp("zygote"))
    yield made
    made.stop()


@pytest.fixture
def recorded(zygote: Zygote, tmp_path: Path) -> Callable[..., Run]:
    """Runs a program in a process that has torch already, and is recorded. `during(pid)` is called while it runs."""

    def run(text: str, during: Callable[[int], object] | None = None) -> Run:
        return zygote.run(text, tmp_path, during)

    return run


@pytest.fixture
def started(tmp_path: Path) -> Callable[..., Run]:
    """Runs a program in an interpreter of its own, as `unstuck run` would: only variables switch the recording on."""

    def run(
        text: str = "",
        *,
        command: list[str] | None = None,
        recorded: bool = True,
        variables: dict[str, str] | None = None,
        **options: Any,
    ) -> Run:
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        script = write(tmp_path / "train.py", text)
        known = environment(folder if recorded else None, **(variables or {}))
        ended = subprocess.run(
            [one.replace("SCRIPT", str(script)) for one in command or [sys.executable, "SCRIPT"]],
            env=known, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False, **options,
        )  # fmt: skip
        return Run(ended.returncode, folder, ended.stdout, ended.stderr)

    return run
