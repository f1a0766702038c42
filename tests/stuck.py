"""Real trainings that stand still at a FIFO until a test lets them go on; all they start is found again by a mark."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MARK = "UNSTUCK_TEST_MARK"  # in the environment of all that a test starts, and of all that those start
PATIENCE = 120.0  # seconds: the machine may be busy

# Sample 20 of 40 is read from a FIFO: `python train.py FIFO`.
TRAINING = """
import sys, torch
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 20:
            with open(sys.argv[1]) as file:
                file.read()
        return torch.zeros(2)

if __name__ == "__main__":
    for number, batch in enumerate(DataLoader(Files(), batch_size=4, num_workers=1)):
        print("batch", number, flush=True)
    print("done", flush=True)
"""
PRINTED = "".join(f"batch {number}\n" for number in range(10)) + "done\n"

# The same by two ranks: a worker of rank 0 reads what `cat FIFO` prints, and rank 1 waits in a collective.
RANKS = """
import subprocess, sys, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        if index == 20 and dist_rank == 0:
            with subprocess.Popen(["cat", sys.argv[1]], stdout=subprocess.PIPE) as cat:
                cat.stdout.read()
        return torch.zeros(2)

if __name__ == "__main__":
    dist.init_process_group("gloo")
    dist_rank = dist.get_rank()
    for batch in DataLoader(Files(), batch_size=4, num_workers=1):
        dist.all_reduce(batch)
    dist.destroy_process_group()
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def wait_for(condition, seconds=PATIENCE):
    """What the condition gives, once it is something."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.03)
    return found


class Place:
    """A folder with a FIFO in it, the mark of all that is started here, and what was said on stderr."""

    def __init__(self, folder):
        self.folder = folder
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        self.mark = uuid.uuid4().hex
        self.variables = {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1"}

    def write(self, text, name="train.py"):
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, *command, **options):
        """In a session of its own; stdout and stderr go to the files `out` and `err`."""
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, "start_new_session": True, **options}
            return subprocess.Popen([*map(str, command)], cwd=self.folder, env=self.variables, **options)

    def run(self, *options, program=TRAINING, python=(sys.executable,), before=(), **more):
        """`unstuck run OPTIONS -- python train.py FIFO`."""
        command = [*before, sys.executable, "-m", "unstuck", "run", *options, "--", *python]
        return self.start(*command, self.write(program), self.fifo, **more)

    @property
    def out(self):
        return (self.folder / "out").read_text()

    @property
    def err(self):
        return (self.folder / "err").read_text()

    def told(self, words, seconds=PATIENCE):
        wait_for(lambda: words in self.err, seconds)

    def let_go(self):
        """Open the FIFO's other end and close it: whoever waits there reads nothing and goes on."""
        os.close(wait_for(self._writer))

    def _writer(self):
        try:
            return os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads yet
                raise
            return None

    def processes(self, *words):
        """Of all that was started here and still runs, those with one of these words in their commands."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                there = mark in Path("/proc", name, "environ").read_bytes().split(b"\0")
                command = Path("/proc", name, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if there and (not words or any(word in command for word in words)):
                found.append(int(name))
        return sorted(found)

    def trainings(self, *words):
        """The same without `unstuck run` itself and its watcher, whose commands name the program, too."""
        ours = self.processes("-m unstuck run")
        return [pid for pid in self.processes(*words) if pid not in ours]

    def end(self):
        """Whatever is left: by pid, each known by its mark."""
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


@contextlib.contextmanager
def place_at(folder):
    place = Place(folder)
    try:
        yield place
    finally:
        place.end()


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def needs_root(*programs):
    missing = [one for one in programs if shutil.which(one) is None]
    if os.getuid() != 0 or missing:
        pytest.skip(f"needs root{' and ' + ', '.join(missing) if missing else ''}")


def without_ptrace():
    """Words in front of a command that take away the right to look into others."""
    needs_root("setpriv")
    return ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
