"""Runs small programs under the recorder and reads their recordings back."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from unstuck.evidence.process import Process
from unstuck.inside import format as f
from unstuck.recordings.decoder import Unfinished
from unstuck.recordings.process import process_of
from unstuck.recordings.reader import Facts, Recording

SRC = Path(__file__).parents[2] / "src"
PACKAGE = SRC / "unstuck"
INSIDE = PACKAGE / "inside"
BOOTSTRAP = INSIDE / "bootstrap"
TIMEOUT = 120.0

# What most programs begin with.
BEGIN = """
import json, os, sys
import torch, unstuck
from torch.utils.data import DataLoader, IterableDataset

class Numbers:
    def __init__(self, length=8):
        self.length = length
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        return index
"""
# And those that train and validate.
LOOP = (
    BEGIN
    + """
import copy, gc, pickle, time, weakref
from torch import nn
model = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2), nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
training, held_out = DataLoader(torch.rand(8, 1), batch_size=2), DataLoader(torch.rand(6, 1), batch_size=2)

def train(loader=training):
    for rows in loader:
        model(rows).sum().backward()
        optimizer.step()

def look(loader=held_out):
    for rows in loader:
        model(rows)
"""
)


class Recorded(Facts):
    """One process's recording, with what only tests ask it for."""

    def __init__(self, path: Path) -> None:
        super().__init__(Recording(path), 0.0)

    def process(self) -> Process:
        return process_of(self)

    def events(self, kind: int, key: int | None = None) -> list[list[int]]:
        """Frequent events of one kind in the order they were written, as far back as the ring goes."""
        return [one for one in self.recording.ring() if one[f.R_KIND] == kind and key in (None, one[f.R_KEY])]


class Run:
    """A program that has ended: its status, what it printed, what was recorded."""

    def __init__(self, code: int, folder: Path, out: str, err: str) -> None:
        self.code = code
        self.folder = folder
        self.out = out
        self.err = err

    @property
    def facts(self) -> list[Recorded]:
        """Of every process, in the order they were started."""
        found = [Recorded(path) for path in self.folder.glob("*.rec")]
        return sorted(found, key=lambda one: one.recording.header[f.H_MONOTONIC])

    def role(self, role: int) -> list[Recorded]:
        return [one for one in self.facts if one.recording.header[f.H_ROLE] == role]

    @property
    def main(self) -> Recorded:
        (only,) = self.role(f.ROLE_MAIN)
        return only

    @property
    def workers(self) -> list[Recorded]:
        return self.role(f.ROLE_WORKER)

    @property
    def processes(self) -> list[Process]:
        return [one.process() for one in self.facts]

    def exits(self) -> dict[int, set[int]]:
        """Statuses that any process has learned, by pid."""
        found: dict[int, set[int]] = {}
        for one in self.facts:
            for record in one.noted(f.Kind.EXIT):
                found.setdefault(record[f.R_A], set()).add(signed(record[f.R_B]))
        return found

    def succeeded(self) -> Run:
        assert self.code == 0, self.err
        assert not self.err, self.err
        return self


def frames_of_ours(text: str) -> list[str]:
    """Lines of a traceback that name a file of the package. The word alone is no sign: a clone is called so, too."""
    return [line for line in text.splitlines() if f"{PACKAGE}{os.sep}" in line]


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text).lstrip())
    return path


def environment(recordings: Path | None, **more: str) -> dict[str, str]:
    """A clean environment with nothing of unstuck's in it but what is asked for."""
    known = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK", "PYTHON"))}
    if recordings is not None:
        known |= {"PYTHONPATH": str(BOOTSTRAP), "UNSTUCK_RECORDINGS": str(recordings)}
    return known | {"OMP_NUM_THREADS": "1"} | more


class Zygote:
    """A recorded process that has imported torch, which takes long, and forks for every program it is given."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "zygote.py")],
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._heard = b""

    def run(self, text: str, folder: Path, during: Callable[[int], object] | None = None) -> Run:
        """Run a program and wait for its end; `during(pid)` is called while it runs."""
        recordings = folder / "recordings"
        recordings.mkdir()
        request = {"script": str(write(folder / "train.py", text)), "folder": str(recordings)}
        print(json.dumps(request), file=_open(self.process.stdin), flush=True)
        pid = int(self._answer())
        if during is not None:
            during(pid)
        status = os.waitstatus_to_exitcode(int(self._answer(pid)))
        return Run(status, recordings, (recordings / "out").read_text(), (recordings / "err").read_text())

    def stop(self) -> None:
        _open(self.process.stdin).close()
        self.process.wait(TIMEOUT)

    def _answer(self, pid: int = 0) -> str:
        """One line. Two may come at once, of which a file object would keep the second where select cannot see it."""
        answers = _open(self.process.stdout).fileno()
        while b"\n" not in self._heard:
            ready, _, _ = select.select([answers], [], [], TIMEOUT)
            if not ready and pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            said = os.read(answers, 4096)
            assert said, "the zygote is gone"
            self._heard += said
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()


def meanwhile(folder: Path, wanted: Callable[[Process], object], seen: list[Process]) -> Callable[[int], None]:
    """Reads the recording of a running program until what is wanted shows, and keeps it."""

    def look(pid: int) -> None:
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until and not seen:
            for path in folder.glob(f"*.{pid}.*.rec"):
                if path.name.rsplit(".", 3)[1] == str(pid):
                    with contextlib.suppress(Unfinished):  # it is being opened
                        seen.extend(one for one in [Recorded(path).process()] if wanted(one))
            time.sleep(0.02)

    return look


def _open(file: IO[str] | None) -> IO[str]:
    assert file is not None
    return file
