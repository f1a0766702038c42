"""What the watcher does about a run that stands still: look, judge, tell once, and say when it goes on.

The look itself is taken in a process of its own, `unstuck.watching.stalls FOLDER PID STALL DUE`. So the watcher stays
small, goes on passing signals meanwhile, and outlives whatever happens to it. That process is started a moment early,
and waits until the look is due by the monotonic clock, which all processes share.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from ..analysis.stacks import CHECKPOINT
from ..evidence.finding import Certainty, Finding, Symptom
from ..evidence.live import Stall
from ..inside.format import RecordingName
from ..report import Report
from .run_storage import hold_run
from .stall_clock import LEAST, LivenessClock, StallClock, WatchedTime, limit

PATIENCE = 60.0  # seconds after which a stall is told without a cause
LATER = (300.0, 900.0, 3600.0)  # seconds: a cause may show only then
SOONER = (20.0, 40.0, 120.0, 600.0, 1800.0)  # where the recording tells no progress: it may stand only now
EVERY = 1800.0  # the same, for as long as it lives
LOOKING = 40.0  # seconds for one look, a hanging py-spy included
AGAIN = 10.0  # seconds: a checkpoint that is being written may be done by then
READY = 1.0  # seconds before a look is due in which it is got ready: an interpreter that starts and imports
LATE = 5.0  # seconds after torch was seen in a process: its recording is made when it imports torch
KEPT_OUT = "python -I, -E or -S, a container or a cleared environment keeps unstuck out"
FROM_OUTSIDE = "it is watched from outside only"
CERTAIN, ALWAYS = "stop", "stop-always"  # as --on-stall has them
UNSETTLED = ("unknown", Symptom.WAITING.value)
TELLING = (Symptom.STUCK.value, Symptom.CRASHED.value)


class Options(NamedTuple):
    """What the user asked for."""

    stop: str = ""  # CERTAIN or ALWAYS: what the run is stopped for; "": nothing
    after: float | None = None  # --stall-after
    on_finding: str | None = None

    @property
    def patience(self) -> float:
        return PATIENCE if self.after is None else self.after


class Stalls:
    """Follows the stall clock. `tell` is given a report with a cause or an unknown stall, `say` one line."""

    def __init__(
        self,
        folder: Path,
        recordings: Path,
        pid: int,
        options: Options,
        tell: Callable[[Report, Path], None],
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._recorded = StallClock(recordings)
        self._outside = LivenessClock(pid)
        self._watched = WatchedTime()
        self._clock: StallClock | LivenessClock = self._outside
        self._options = options
        self._tell = tell
        self._say = say
        self._looking: subprocess.Popen[bytes] | None = None
        self._answer: IO[bytes] = io.BytesIO()
        self._looked = 0  # how often in this stall
        self._deadline = 0.0
        self._postponed: float | None = None  # seconds of standing after which to look again whether to stop
        self._moved = 0.0
        self._said = False  # of a run whose recording tells no progress: once is enough
        self._unrecorded_since = 0.0
        self.told = False
        self.report: Report | None = None  # the cause of the stall that goes on
        self.wants_stop = False

    def tick(self, age: float, alive: Collection[RecordingName]) -> None:
        """`age`: of the run, in seconds; `alive`: recorded processes that have not ended."""
        now = self._watched.tick()
        self._recorded.tick(now, alive)
        self._choose_clock(now)
        moved = self._clock.moved()
        if moved is None:
            if self.told and self._recorded.last_moved > self._moved:  # it went on, and has come to its end
                self._goes_on(self._recorded.last_moved)
            return
        if moved != self._moved:  # earlier: the rank that got on last is gone, and the others stand for longer
            self._goes_on(moved)
        least = LEAST if self._options.after is None else min(LEAST, self._options.after)
        if now - moved < least - _ahead(least) and self._looking is None:
            return
        stall = self._clock.stall(now, age, self._options.patience)
        if stall is None:
            return
        self._finish_looking(stall)
        due = self._due(stall)
        wanted = self.report is None or self._postponed is not None
        if self._looking is None and wanted and due is not None and stall.seconds >= due - _ahead(due):
            self._look(stall, max(due - stall.seconds, 0.0))

    @property
    def recorded(self) -> StallClock:
        return self._recorded

    def ranks(self) -> int:
        """Main processes that are alive, recorded, and get on."""
        moved = self._recorded.moved()
        return self._recorded.ranks() if moved is not None and self._watched.now - moved < LEAST / 2 else 0

    def _choose_clock(self, now: float) -> None:
        """Progress where it is recorded; else whether anything moves."""
        if self._recorded.moved() is not None:
            self._clock = self._recorded
        elif self._clock is self._outside:
            known = self._outside.training
            self._outside.tick(now)
            if known is None and self._outside.training is not None:
                self._unrecorded_since = now
            if self._recorded.anyone():  # a launcher, whose ranks are still being started
                self._unrecorded_since = now
            if self._unrecorded_since and now - self._unrecorded_since > LATE:
                self._unrecorded_since = 0.0
                self._say(f"pid {self._outside.training} runs torch but is not recorded ({KEPT_OUT}): {FROM_OUTSIDE}")

    def _due(self, stall: Stall) -> float | None:
        """Seconds of standing still after which the next look is taken."""
        if self._postponed is not None:
            return self._postponed
        after = self._options.after
        first = limit(stall) if after is None else min(limit(stall), after)
        more = (*LATER, *SOONER) if stall.blind else LATER
        times = sorted({first, max(first, self._options.patience), *(one for one in more if one > first)})
        if self._looked < len(times):
            return times[self._looked]
        return times[-1] + EVERY * (self._looked - len(times) + 1) if stall.blind else None

    def _goes_on(self, moved: float) -> None:
        if self.told and moved > self._moved:
            self._say(f"the run goes on after {moved - self._moved:.0f} s")
        self._moved, self._looked = moved, 0
        self.told, self.report, self._postponed = False, None, None
        self.close()  # a look at a stall that is over

    def _look(self, stall: Stall, wait: float) -> None:
        """`wait`: seconds until it is due; by then it is ready to look."""
        self._looked += 1
        due = time.monotonic() + wait
        self._deadline = time.monotonic() + LOOKING
        command = [sys.executable, "-m", "unstuck.watching.stalls", str(self._folder), str(stall.pid)]
        try:
            self._answer = os.fdopen(os.memfd_create("look"), "w+b")  # the disk may be full
            self._looking = subprocess.Popen(
                [*command, msgspec.json.encode(_then(stall, wait)).decode(), str(due)],
                stdin=subprocess.DEVNULL,
                stdout=self._answer,  # not a pipe: nobody reads it before the end
                env={**os.environ, "UNSTUCK": "0", "PYTHONSAFEPATH": "1"},
                start_new_session=True,
            )
        except OSError as error:  # no descriptor, no process, no memory: the run goes on, and so does the watching
            self._say(f"no progress for {stall.seconds:.0f} s, and looking for the cause failed ({error.strerror})")

    def _finish_looking(self, stall: Stall) -> None:
        looking = self._looking
        if looking is None:
            return
        if looking.poll() is None:
            if time.monotonic() > self._deadline:
                self.close()
            return
        self._answer.seek(0)
        said = self._answer.read()
        self.close()
        try:
            self._judge(msgspec.json.decode(said, type=Report), stall)
        except msgspec.DecodeError:  # it was killed, or the run has ended meanwhile
            return

    def _judge(self, report: Report, stall: Stall) -> None:
        causes = [one for one in report.findings if one.role == "root" and one.symptom in TELLING]
        waited = stall.seconds >= self._options.patience
        if causes:
            if self.report is None:
                self._speak(report)
            self.report = report
        elif waited and report.state in UNSETTLED:
            self._speak(report)
        elif not stall.blind or report.unsettled or (waited and not self._said):
            self._said = stall.blind
            self._say(_doing(report, stall))
        saving = any(CHECKPOINT in one.doing and one.moving for one in report.activities)
        stop = self._stops(report, causes, waited=waited)
        self._postponed = stall.seconds + AGAIN if stop and saving else None
        if stop and not saving:
            self.report = (
                report
                if causes
                else msgspec.structs.replace(report, state=report.state if report.state in UNSETTLED else "unknown")
            )
            self.wants_stop = True

    def _stops(self, report: Report, causes: list[Finding], *, waited: bool) -> bool:
        """A cause that is certain; whatever it is only where the user has said so."""
        if self._options.stop == CERTAIN:
            return any(one.certainty == Certainty.CERTAIN.value for one in causes)
        told = bool(causes) or (report.state == Symptom.WAITING.value and bool(report.findings))
        return self._options.stop == ALWAYS and (told or (waited and self._options.after is not None))

    def _speak(self, report: Report) -> None:
        self.told = True
        self._tell(report, self._folder)

    def close(self) -> None:
        """End a look that is under way, with all it started."""
        looking, self._looking = self._looking, None
        if looking is None:
            return
        if looking.poll() is None:
            os.killpg(looking.pid, 9)
            looking.wait()
        self._answer.close()


def _ahead(due: float) -> float:
    """How long before a look is due it is got ready; of short patience, a tenth."""
    return min(READY, due / 10)


def _then(stall: Stall, wait: float) -> Stall:
    """As it will be by then, if nothing moves. If something does, the look is dropped."""
    return msgspec.structs.replace(stall, seconds=round(stall.seconds + wait, 3))


def _doing(report: Report, stall: Stall) -> str:
    """One line: a healthy wait, or one whose cause is not known yet."""
    told = "; ".join(
        (f"rank {one.rank}: " if one.rank is not None else "") + one.doing for one in report.activities[:4] if one.doing
    )
    seconds = f"{stall.seconds:.0f} s"
    seen = not stall.blind or report.unsettled  # by the recording, or by the look itself
    return f"{f'no progress for {seconds}' if seen else f'no batch or step in {seconds}'}: {told or stall.doing}"


def main(folder: Path, pid: int, stall: Stall, due: float) -> int:
    # Not in the watcher itself: all rules and numpy come with it.
    from ..diagnose import diagnose_stall, get_ready
    from ..errors import UserError
    from ..probes.run_history import save_snapshot

    get_ready()
    time.sleep(max(due - time.monotonic(), 0.0))
    try:
        report = diagnose_stall(folder, pid, stall)
    except UserError:  # it has ended by itself
        return 2
    sys.stdout.buffer.write(msgspec.json.encode(report))
    try:
        hold_run(folder)  # as it is now: a look takes a while
        save_snapshot(report, folder)
    except OSError as error:
        print(f"unstuck: the snapshot of the stall could not be saved in {folder} ({error.strerror})", file=sys.stderr)
    return 0


if __name__ == "__main__":
    asked = msgspec.json.decode(sys.argv[3], type=Stall)
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), asked, float(sys.argv[4])))
