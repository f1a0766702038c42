"""Follows the recorded processes of one node: samples the machine, notes who ends and how, and writes it down."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from ..evidence import Exit, Glance, Sample, Told
from ..evidence.journal import Begin, End, Glanced, Gone, Heard, Line, Look
from ..evidence.live import Frame
from ..inside.format import RecordingName, recording_name
from ..probes import cgroups, kernel, machine
from ..safe_files import append_private, read_plain, remove, write_private
from ..wording.text import in_words
from . import run_storage
from .handles import Handle, handle_on

TICK = 0.5
CLOSELY_EVERY = 4, 16  # ticks: counting descriptors and the like costs as much as all the rest; so seldom after
AT_FIRST = 80  # ticks; after them, every second is enough
APART = 2  # processes of which it is asked what they share with nobody: workers, and no main process
# Times as long as that took is the time until they are asked again: the first few times and while memory is scarce, and
# else. A GiB takes 40 ms.
SELDOM, RARELY = 20, 1000
OFTEN = 5  # times
SCARCE = 0.8  # of the limit in use: who copied what is wanted to be known when it is reached
COPY_EVERY = 20  # ticks: recordings that had to be written on a local disk
OURSELVES = "unstuck"
PATIENCE = 10  # ticks for which the status of an ended process is still asked for
JOURNAL_LIMIT = 1 << 20  # bytes: then it is set aside, with what was set aside before, and every second look is dropped
LOOK = msgspec.json.encode(Look(Sample(at=0.0)))[:14]  # how the line of a look begins


class Following:
    """The watcher's eyes. `pid` is the process whose view of the machine counts: the command, or the first rank."""

    def __init__(self, folder: Path, recordings: Path, pid: int, clock: RunClock) -> None:
        self.folder = folder
        self.recordings = recordings
        self.pid = pid
        self.now = clock.now
        self._node = os.uname().nodename
        self.granted = cgroups.granted(pid)
        self.journal = Journal(
            folder,
            Begin(
                node=self._node,
                pid=pid,
                cpus=cgroups.cpus(pid),
                granted=in_words(self.granted),
                quota=cgroups.processor_quota(pid),
                descriptor_limit=kernel.descriptor_limit(pid),
                cgroup=cgroups.leaf(pid),
            ),
        )
        self._handles: dict[RecordingName, Handle] = {}
        self._ended: dict[RecordingName, int] = {}
        self._known: set[str] = set()
        self.descended: set[tuple[int, int]] = set()  # pid and start of recorded processes that descend from `pid`
        self.last: Sample | None = None
        self._ticks = 0
        self._apart_at, self._apart_took, self._apart_asked = 0.0, 0.0, 0
        self._gpus = machine.WatchedGpus()
        self.mains: list[int] = []  # whose main threads are asked what they wait for

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks % COPY_EVERY == 0:
            self._copy()
        self._meet_new()
        self._note_ended()
        if self._ticks > AT_FIRST and self._ticks % 2 == 0:
            return
        groups = machine.groups_in(self.last) if self.last is not None else []
        scarce = self.last is not None and _scarce(self.last)
        closely = self._ticks % CLOSELY_EVERY[self._ticks > AT_FIRST and not scarce] == 1
        pids = [name.pid for name in self._handles]
        others = [pid for pid in pids if pid not in (self.pid, pids[0], *self.mains)] if closely else []
        times = SELDOM if scarce or self._apart_asked <= OFTEN else RARELY
        apart = others[:APART] if self.now() >= self._apart_at + times * self._apart_took else []
        begun = time.thread_time()
        self.last = machine.sample(self.pid, pids, self.folder, self.now(), groups, closely=closely, apart=apart)
        self.last = machine.with_waits(self.last, self.mains)
        if closely:
            self.last = machine.with_processors(self.last, self.granted)
            self.last = msgspec.structs.replace(self.last, gpus=self._gpus.look())
        self._apart_asked += bool(apart)
        if apart:
            self._apart_at, self._apart_took = self.now(), time.thread_time() - begun
        self.journal.look(self.last)

    def _copy(self) -> None:
        """Where recordings had to be written elsewhere. A full disk is no reason to stop watching."""
        try:
            run_storage.bring_home(self.recordings, self.folder)
        except OSError:
            return

    def anyone(self) -> bool:
        return bool(self._handles)

    def alive(self) -> set[int]:
        """Pids of recorded processes of this node that have not ended."""
        return {name.pid for name in self.alive_names()}

    def alive_names(self) -> set[RecordingName]:
        return self._handles.keys() - self._ended.keys()

    def _meet_new(self) -> None:
        try:
            names = os.listdir(self.recordings)
        except OSError:
            return
        for file in names:
            if file in self._known:
                continue
            self._known.add(file)
            name = recording_name(file)
            if name is not None and name.node == self._node:  # other nodes have processes of the same number
                self._meet(name)

    def _meet(self, name: RecordingName) -> None:
        try:
            self._handles[name] = handle_on(name.pid, name.started)
        except ProcessLookupError:  # it has ended, and its pid may be somebody else's by now
            return
        if descends(name.pid, self.pid):
            self.descended.add((name.pid, name.started))

    def _note_ended(self) -> None:
        for name, handle in list(self._handles.items()):
            if not handle.ended():
                continue
            status = handle.status()
            self._ended[name] = self._ended.get(name, 0) + 1
            if status is not None:
                self.journal.gone(Exit(pid=name.pid, status=status, at=round(self.now(), 3), how="pidfd"))
            if status is not None or self._ended[name] > PATIENCE:
                handle.close()
                del self._handles[name]

    def heard(self, number: int, sender: int, code: int) -> None:
        """A signal came for the command. What it does with it shows for as long as it lives."""
        bit = 1 << (number - 1)
        seen, sent = kernel.status(self.pid), kernel.stat(sender) if sender else None
        told = Told(
            signal=number,
            at=round(self.now(), 3),
            pid=sender,
            by=OURSELVES if sender == os.getpid() else sent.name if sent is not None else "",
            terminal=code > 0,
            ignored=bool(seen.ignored & bit),
            handled=bool(seen.caught & bit),
        )
        self.journal.heard(told)

    def child_ended(self, status: int) -> None:
        """The command itself, whose status the watcher has as its parent."""
        self.journal.gone(Exit(pid=self.pid, status=status, at=round(self.now(), 3), how="waited"))

    def finish(self) -> None:
        """The last look, at the counters of the cgroups that the training was in: its own processes are gone."""
        self._meet_new()
        self._note_ended()
        if self.last is not None:
            self.journal.look(machine.counters_after(self.last, self.now()))
        self.journal.end(round(self.now(), 3))


def _scarce(sample: Sample) -> bool:
    if sample.limit is not None and sample.used is not None and sample.used >= SCARCE * sample.limit:
        return True
    return sample.available <= (1 - SCARCE) * sample.total


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process is, or was started by, another one, directly or not."""
    seen: set[int] = set()
    while pid != ancestor:
        about = kernel.stat(pid)
        if about is None or about.parent <= 1 or about.parent in seen:
            return False
        seen.add(pid)
        pid = about.parent
    return True


class Journal:
    """What the watcher writes down: one line at a time, nothing held back, bounded in size.

    A write that fails is dropped: the disk may be full, and the run goes on.
    """

    def __init__(self, folder: Path, begin: Begin) -> None:
        self.path = folder / f"watch-{begin.node}.jsonl"
        self._head: list[Line] = [begin]
        self._fd = -1
        self._open()

    def _open(self) -> None:
        try:
            self._fd = append_private(self.path)
        except OSError:
            self._fd = -1
        for line in self._head:
            self._write(line)

    def look(self, sample: Sample) -> None:
        line = Look(sample)
        if len(self._head) == 1:
            self._head.append(line)  # what the counters stood at when the run began
        self._write(line)
        if self._fd >= 0 and os.fstat(self._fd).st_size > JOURNAL_LIMIT:
            os.close(self._fd)
            self._set_aside()
            self._open()

    def _set_aside(self) -> None:
        """The older, the fewer: hours of a run stay in sight, and the file stays as small."""
        old = self.path.with_suffix(".old.jsonl")
        lines = [
            line for path in (old, self.path) if path.exists() for line in read_plain(path).splitlines(keepends=True)
        ]
        looks = [number for number, line in enumerate(lines) if line.startswith(LOOK)]
        dropped = set(looks[1::2])
        try:
            write_private(old, b"".join(line for number, line in enumerate(lines) if number not in dropped))
            remove(self.path)
        except OSError:  # a full disk: as much is written as has room
            return

    def glance(self, about: Glance, frames: list[Frame]) -> None:
        self._write(Glanced(msgspec.structs.replace(about, frames=frames)))

    def gone(self, seen: Exit) -> None:
        self._write(Gone(seen))

    def heard(self, told: Told) -> None:
        self._write(Heard(told))

    def end(self, at: float) -> None:
        self._write(End(at))
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: Line) -> None:
        try:
            os.write(self._fd, msgspec.json.encode(line) + b"\n")
        except OSError:
            return


class RunClock:
    """Seconds since the run began. Only where it began is taken from the wall clock."""

    def __init__(self, started: float) -> None:
        self._offset = max(time.time() - started, 0.0) - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()
