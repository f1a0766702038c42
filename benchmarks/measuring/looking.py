"""What looking costs: the watcher's processor time beside a training, and how long `unstuck why PID` takes."""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from measuring import children
from measuring.trial import Interrupted

RANKS = Path(__file__).with_name("ranks.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(RANKS)]
UNSTUCK = [sys.executable, "-m", "unstuck"]
BLOCKED = "worker-blocked-io"
WORKERS_WATCHED, WORKERS_STUCK = 8, 4  # of each rank
WINDOW = 20.0  # seconds
STUCK_FOR = 12.0  # seconds before anybody looks: more than the ten after which standing still counts
READY = 120.0
CAUSE = re.compile(r"unstuck explain (\S+)")


def watcher(windows, stopping, tell):
    """Shares of one core that `unstuck run` itself took, one for each window."""
    with tempfile.TemporaryDirectory(prefix="detection-") as name:
        folder = Path(name)
        command = [*UNSTUCK, "run", "--run-dir", "runs", "--", *TORCHRUN, name, str(WORKERS_WATCHED)]
        with children.running(command, children.environment(), folder) as child:
            _wait_for([folder / "rank-0", folder / "rank-1"], child, folder, stopping)
            shares = []
            for number in range(windows):
                tell(f"watcher: window {number + 1} of {windows}, {WINDOW:.0f} s")
                before, began = _processor_time(child.pid), time.monotonic()
                _sleep(WINDOW, stopping)
                shares.append((_processor_time(child.pid) - before) / (time.monotonic() - began))
            children.check(child, folder)
    return {"shares": shares, "best": min(shares), "median": statistics.median(shares), "worst": max(shares)}


def why(times, stopping, tell):
    """Seconds of the command for a stuck run that knows nothing of us, and the causes it named."""
    with tempfile.TemporaryDirectory(prefix="detection-") as name:
        folder = Path(name)
        os.mkfifo(folder / "fifo")
        command = [*TORCHRUN, name, str(WORKERS_STUCK), str(folder / "fifo")]
        with children.running(command, children.environment(), folder) as child:
            _wait_for([folder / "stuck", folder / "rank-1"], child, folder, stopping)
            asked = []
            for number in range(times):  # a look wakes those it looks at, so each comes to a run that has rested
                tell(f"why PID: it is stuck, and left so for {STUCK_FOR:.0f} s")
                _sleep(STUCK_FOR, stopping)
                asked.append(_ask(child.pid, folder / str(number), tell))
            again = _ask(child.pid, folder / "again", tell)
            children.check(child, folder)
    seconds = [one["seconds"] for one in asked]
    return {
        "asked": asked,
        "again": again,
        "best": min(seconds),
        "median": statistics.median(seconds),
        "worst": max(seconds),
    }


def _ask(pid, folder, tell):
    folder.mkdir()
    began = time.monotonic()
    with children.running([*UNSTUCK, "why", str(pid)], children.environment(), folder) as asking:
        asking.wait(READY)
        seconds = time.monotonic() - began
    said = (folder / "output.txt").read_text(errors="replace")
    cause = CAUSE.search(said)
    verdict = cause[1] if cause else "nothing"
    tell(f"why PID: {seconds:.2f} s, {verdict}")
    return {"seconds": seconds, "verdict": verdict, "right": verdict == BLOCKED, "output": said}


def _processor_time(pid):
    """Seconds of this process alone, in user and in kernel mode. Its name may hold blanks, not a closing bracket."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise children.Failed("the watcher has ended") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for(files, child, folder, stopping):
    until = time.monotonic() + READY
    while not all(file.exists() for file in files):
        children.check(child, folder)
        if time.monotonic() > until:
            said = (folder / "output.txt").read_text(errors="replace").strip()[-300:]
            raise children.Failed(f"the two ranks were not ready after {READY:.0f} s: {said}")
        _sleep(0.2, stopping)


def _sleep(seconds, stopping):
    if stopping.wait(seconds):
        raise Interrupted
