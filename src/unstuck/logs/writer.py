"""Writes the text logs of one node's part of a run, once a second, from its recordings."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..evidence import Sample
from ..inside import format as f
from ..recordings.tail import Tail
from ..wording.text import many, size
from . import failures
from .files import DEBUG, ERROR, INFO, SEVERITY, WARNING, Line
from .folder import LogFolder
from .rank import NOTES, RING, SAMPLE_KINDS, SAMPLES, SETTLED, MainProcess
from .worker import Worker

EVERY = 0.9  # seconds: every second look of the watcher, which has less than a hundredth of a core for all it does
AT_ONCE = 300  # lines of one rank at a time: more than that nobody reads
UNRANKED = 2.0  # seconds for which a process that may still learn its rank is not written about
MEMORY_EVERY = 30.0  # seconds between two lines about memory
GONE = 3  # looks after which a process that nobody sees alive has ended


class Logs:
    """Follows every recording of this node. `say` is given the lines that stay on a quiet console."""

    def __init__(
        self,
        folder: LogFolder,
        recordings: str,
        say: Callable[[Line], None] | None = None,
        at_once: int = AT_ONCE,
        node: str | None = None,
    ) -> None:
        """`node`: only its recordings. Others that share the folder write about theirs, under the same pids."""
        self.folder = folder
        self._node = node
        self._recordings, self._say, self._at_once = recordings, say, at_once
        self._general: list[Line] = []  # for the main log
        self._known: set[str] = set()
        self._mains: dict[int, MainProcess] = {}
        self._files: dict[int, str] = {}  # of main processes
        self._workers: dict[int, Worker] = {}
        self._others: dict[int, Tail] = {}
        self._early: dict[int, list[Line]] = {}
        self._unseen: dict[int, int] = {}
        self._memory_told = self._due = 0.0
        folder.begin()

    def tick(self, now: float, alive: set[int], sample: Sample | None = None, *, final: bool = False) -> None:
        """Write what is new. `alive`: recorded processes that have not ended; at the end, nobody is."""
        if now < self._due and not final:
            return
        self._due = now + EVERY
        self._meet()
        for main in list(self._mains.values()):
            try:
                self._follow(main, now, alive, final=final)
            except Exception as error:  # noqa: BLE001  (a damaged recording: the others are still followed)
                self._mains.pop(main.pid, None)
                self._general.append(_given_up(main.pid, main.tail, now, error))
        self._look_at_others(now, alive, final=final)
        if sample is not None and now - self._memory_told >= MEMORY_EVERY:
            self._memory_told = now
            self._memory(sample, now)
        general, self._general = self._general, []
        self.folder.write(self.folder.main_log, sorted(general, key=lambda one: one.at))
        if final:
            self._close()

    def _close(self) -> None:
        """What is left: workers whose main process was never recorded."""
        mains = [main.tail for main in self._mains.values()]
        workers = [worker.tail for worker in self._workers.values()]
        for tail in (*mains, *workers, *self._others.values()):
            tail.close()
        self._mains, self._workers, self._others = {}, {}, {}

    def _follow(self, main: MainProcess, now: float, alive: set[int], *, final: bool) -> None:
        ended = final or self._has_ended(main.pid, alive, main.tail)
        if main.tail.look()[f.H_ROLE] != f.ROLE_MAIN or (ended and self._only_waits(main)):
            self._others[main.pid] = self._mains.pop(main.pid).tail  # it has started the ranks
            return
        if not self._call(main, now, ended=ended):
            return
        lines = main.lines(now, final=ended)
        for worker in self._of(main):
            lines += self._worker(worker, main, now, alive, final=ended)
        lines = sorted(self._early.pop(main.pid, []) + lines, key=lambda one: one.at)
        due = len(lines) if ended else sum(one.at <= now - SETTLED for one in lines)
        self._early[main.pid] = lines[due:]  # the main process is read a moment late, its workers are not
        self._put(main, lines[:due])
        if ended:
            self._mains.pop(main.pid).tail.close()

    def _meet(self) -> None:
        try:
            names = sorted(os.listdir(self._recordings))
        except OSError:
            return
        for name in names:
            if name.endswith(".rec") and name not in self._known and self._is_of_this_node(name):
                try:
                    tail = Tail(os.path.join(self._recordings, name), (*RING, *SAMPLE_KINDS), NOTES)
                except (OSError, ValueError):  # it is being made
                    continue
                self._known.add(name)
                before = self._others.get(tail.header[f.H_PID])
                if before is not None:
                    before.close()
                self._others[tail.header[f.H_PID]] = tail
        for pid, tail in list(self._others.items()):
            try:
                self._sort(pid, tail)
            except (OSError, ValueError) as error:
                del self._others[pid]
                self._general.append(_given_up(pid, tail, tail.seconds(tail.header[f.H_MONOTONIC]), error))

    def _is_of_this_node(self, file: str) -> bool:
        name = f.recording_name(file)
        return self._node is None or (name is not None and name.node == self._node)

    def _sort(self, pid: int, tail: Tail) -> None:
        """Its role may show only some time after its recording was made."""
        role = tail.look()[f.H_ROLE]
        if role == f.ROLE_MAIN:
            tail.ring.only((*RING, *SAMPLE_KINDS) if self.folder.settings.samples else RING)
            self._mains[pid] = MainProcess(tail, self.folder.settings)
        elif role == f.ROLE_WORKER:
            self._workers[pid] = Worker(tail, self.folder.settings)
        else:
            return
        del self._others[pid]

    def _call(self, main: MainProcess, now: float, *, ended: bool) -> bool:
        """Find out whose log it is. False: it is too early to say, it may only be about to start the ranks."""
        header = main.tail.look()
        rank, opened = header[f.H_RANK], header[f.H_WALL] / 1e9
        if not rank and (main.name or (not ended and (now - opened < UNRANKED or not main.is_busy()))):
            return bool(main.name)
        file, name = self.folder.of_rank(max(rank - 1, 0)), f"[Rank {max(rank - 1, 0)}]"
        if any(self._files.get(one.pid) == file for one in self._mains.values() if one is not main):
            file, name = self.folder.of_rank(max(rank - 1, 0), main.pid), f"[pid {main.pid}]"
        if self._files.get(main.pid) != file:
            self._files[main.pid] = file
            main.called(name)
        return True

    def _only_waits(self, main: MainProcess) -> bool:
        """It has no rank, has done nothing that is worth a line, and others have."""
        return not main.tail.header[f.H_RANK] and not main.name and bool(self._files) and not main.is_busy()

    def _has_ended(self, pid: int, alive: set[int], tail: Tail) -> bool:
        self._unseen[pid] = 0 if pid in alive else self._unseen.get(pid, 0) + 1
        return self._unseen[pid] >= GONE or (pid not in alive and bool(tail.look()[f.H_ENDED]))

    def _worker(self, worker: Worker, main: MainProcess, now: float, alive: set[int], *, final: bool) -> list[Line]:
        try:
            ended = final or self._has_ended(worker.pid, alive, worker.tail)
            lines = worker.lines(now, main, final=ended)
        except Exception as error:  # noqa: BLE001  (as with a main process)
            del self._workers[worker.pid]
            return [_given_up(worker.pid, worker.tail, now, error)]
        if ended:
            self._workers.pop(worker.pid).tail.close()
        return lines

    def _of(self, main: MainProcess) -> list[Worker]:
        """Its workers: children, and those that a fork server has for it."""
        return [one for one in self._workers.values() if one.parent == main.pid or one.pid in main.known.workers]

    def _look_at_others(self, now: float, alive: set[int], *, final: bool) -> None:
        """Launchers, and processes that never did anything: only what ended them gets a line."""
        for pid, tail in list(self._others.items()):
            try:
                said = [_failed(pid, tail, one) for one in tail.new_last_words()]
                ended = final or self._has_ended(pid, alive, tail)
            except Exception as error:  # noqa: BLE001  (as with a main process)
                del self._others[pid]
                self._general.append(_given_up(pid, tail, now, error))
                continue
            self._general += said
            if ended:
                self._others.pop(pid).close()

    def _put(self, main: MainProcess, lines: list[Line]) -> None:
        """A rank's lines: all into its own log, what is of general interest into the main log too."""
        level = SEVERITY[self.folder.settings.level]
        wanted = _few([one for one in lines if SEVERITY[one.level] >= level], main.name, self._at_once)
        self.folder.write(self._files[main.pid], wanted)
        self._general += [one for one in wanted if one.main and one.level != DEBUG]
        if self._say is not None:
            for one in lines:
                if one.key:
                    self._say(one)

    def _memory(self, sample: Sample, now: float) -> None:
        held = {one.pid: one.anonymous for one in sample.processes}
        for main in self._mains.values():
            mine = [one.pid for one in self._of(main)]
            workers = sum(held.get(pid, 0) for pid in mine)
            parts = [size(held.get(main.pid, 0))]
            if mine:
                parts.append(f"{many(len(mine), 'worker')} {size(workers)}, shared memory counted in each")
            shm = f", {size(sample.shm_free)} in /dev/shm" if sample.shm_free is not None else ""
            free = f"{size(sample.available)} available{shm}"
            if main.name and main.pid in held:
                self._put(main, [Line(now, DEBUG, "memory", f"{main.name} memory: {', '.join(parts)}; {free}")])


def _failed(pid: int, tail: Tail, said: dict[str, Any]) -> Line:
    return failures.failed(f"[pid {pid}]", tail.seconds(int(said.get("at", 0))), said, iterable=False)


def _given_up(pid: int, tail: Tail, now: float, error: Exception) -> Line:
    """The last line about a process whose recording is damaged."""
    tail.close()
    why = f"{type(error).__name__}: {error}"[:200]
    return Line(now, WARNING, "run", f"[pid {pid}] its recording is damaged and no longer read ({why})")


def _few(lines: list[Line], name: str, most: int) -> list[Line]:
    """No more than can be read; errors and warnings before all others, and those before what every sample took."""
    if len(lines) <= most:
        return lines
    weight = [0 if one.level in (WARNING, ERROR) else 2 if one.name == SAMPLES else 1 for one in lines]
    chosen = sorted(range(len(lines)), key=lambda number: weight[number])[:most]
    kept = [lines[number] for number in sorted(chosen)]
    text = f"{name} {len(lines) - len(kept):,} lines are dropped here: they came too fast"
    return [*kept, Line(kept[-1].at, INFO, "run", text)]
