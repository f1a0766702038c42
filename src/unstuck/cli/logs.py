"""Show a run's text logs, or follow them while it runs. Without RUN: the newest run in unstuck-runs.

    unstuck logs                               the main log: configuration, epochs, checkpoints, errors, findings
    unstuck logs -f                            follow it until the run ends
    unstuck logs --rank 0                      everything about one rank
    unstuck logs --level DEBUG                 everything about all ranks, in order of time
    unstuck logs --level ERROR -f
    unstuck logs RUN --grep "EPOCH.*START"
    unstuck logs --output -f                   the output of the training itself, kept by `unstuck run --quiet`
    unstuck logs RUN --rewrite                 write the logs again, from the recordings

The files are in RUN/logs: train_<time>.log, debug_rank<N>_<time>.log. `grep` and `tail -f` work on them, too.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path

from ..errors import UserError
from ..logs.files import SEVERITY, from_variables, read, stamp
from ..logs.folder import LogFolder
from ..logs.reading import Follower, Log, has_ended, logs_of
from ..safe_files import open_plain
from ..watching.fence import speak
from ..wording.printable import printable, printable_json, quoted
from .arguments import batches, newest_run
from .main import COULD_NOT_LOOK

EVERY = 0.3  # seconds between two looks at a log that is followed
EVERYTHING = 1_000_000  # lines, of a run that is written again


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", type=Path, help="a run folder (default: the newest one here)")
    parser.add_argument("--rank", type=int, metavar="N", help="the debug log of this rank")
    parser.add_argument("--level", choices=tuple(SEVERITY), help="only lines of this level or above")
    parser.add_argument("--grep", metavar="X", help=r"only lines that match this regular expression (\| as in grep)")
    parser.add_argument("-f", "--follow", action="store_true", help="print new lines, until the run ends")
    parser.add_argument("-n", "--lines", type=batches, metavar="N", help="start with the last N lines")
    parser.add_argument(
        "--output", action="store_true", help="the output of the training itself, kept by `run --quiet`"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--rewrite", action="store_true", help="write the logs again from the recordings")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="with --rewrite: folder for the logs (default: RUN/logs)"
    )


def run(arguments: argparse.Namespace) -> int:
    folder = arguments.run or _newest()
    if not folder.is_dir():
        raise UserError(f"{folder} does not exist", "name a run folder such as unstuck-runs/NAME")
    if arguments.rewrite:
        return _rewrite(folder, arguments.to)
    wanted = Wanted(arguments)
    followers = {one.path: Follower(one.path) for one in _chosen(folder, arguments)}
    lines = [line for one in followers.values() for line in one.everything()]
    for told in filter(None, (follower.left_out for follower in followers.values())):
        print(f"unstuck: {printable(told)}", file=sys.stderr)
    ended = (has_ended(lines) and not arguments.output) or not _is_watched(folder)
    shown = wanted.of(lines)
    for line in shown[-arguments.lines :] if arguments.lines else shown:
        print(line, flush=arguments.follow)
    while arguments.follow and not ended:
        time.sleep(EVERY)
        ended = not _is_watched(folder)  # before the last look, so that nothing is left unread
        for one in _chosen(folder, arguments):
            followers.setdefault(one.path, Follower(one.path))
        lines = [line for one in followers.values() for line in one.new()]
        ended = ended or (has_ended(lines) and not arguments.output)
        for line in wanted.of(lines):
            print(line, flush=True)
    return 0


class Wanted:
    """Which lines are shown, and how."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        try:
            self._pattern = re.compile((arguments.grep or "").replace(r"\|", "|"))
        except re.error as error:
            raise UserError(
                f"--grep {arguments.grep!r} is not a regular expression ({error})", "escape its special characters"
            ) from error
        self._least = SEVERITY[arguments.level or "DEBUG"]
        self._plain, self._json = arguments.output, arguments.json

    def of(self, lines: list[str]) -> list[str]:
        """In the order of time; what stands in several logs is shown once."""
        if self._plain:
            return [self._shown(line) for line in lines if self._pattern.search(line)]
        known = {line: one for line in dict.fromkeys(lines) if (one := read(line)) is not None}
        wanted = [line for line, one in known.items() if SEVERITY[one.level] >= self._least]
        return [self._shown(line) for line in sorted(wanted, key=_time) if self._pattern.search(line)]

    def _shown(self, line: str) -> str:
        if not self._json:
            return line if self._plain else printable(line)  # the training's own output is as it was
        one = read(line)
        told = {"message": line} if one is None else {**one._asdict(), "message": one.text}
        shown = {name: value for name, value in told.items() if name != "text"}
        return printable_json(json.dumps(shown, ensure_ascii=False))


def _time(line: str) -> str:
    return line[:25]  # [2026-05-01 03:15:00,123]


def _chosen(folder: Path, arguments: argparse.Namespace) -> list[Log]:
    """The main log; a rank's; all ranks' where DEBUG is asked for, because the main log has none of it."""
    found = logs_of(str(folder / "logs"))
    kind = (
        "output"
        if arguments.output
        else "debug"
        if arguments.rank is not None or arguments.level == "DEBUG"
        else "train"
    )
    chosen = [one for one in found if one.kind == kind and arguments.rank in (None, one.rank)]
    if chosen or arguments.follow:
        return chosen
    if arguments.output:
        raise UserError(f"{folder} has no output of the training", "only `unstuck run --quiet` keeps it")
    ranks = sorted({one.rank for one in found if one.rank is not None})
    if arguments.rank is not None and ranks:
        raise UserError(f"there is no log of rank {arguments.rank}", f"the ranks are {', '.join(map(str, ranks))}")
    raise UserError(
        f"{folder} has no logs", f"write them from its recordings: unstuck logs {quoted(str(folder))} --rewrite"
    )


def _is_watched(folder: Path) -> bool:
    """Whether somebody on this machine still writes these logs. Of another machine's watcher the last line tells."""
    locks = list(folder.glob("watch-*.lock"))
    if not locks and not (folder / "run.json").exists():
        return True  # it is only beginning
    here = folder / f"watch-{os.uname().nodename}.lock"
    if locks and here not in locks:
        return True
    try:
        with os.fdopen(open_plain(here), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _newest() -> Path:
    run = newest_run()
    if run is None:
        raise UserError("there is no run in unstuck-runs", "name a run folder: unstuck logs RUN")
    return run


def _rewrite(folder: Path, to: Path | None) -> int:
    """Into a folder of their own where there are logs: those may know of events that the recordings have lost since."""
    from ..diagnose import diagnose
    from ..logs.writer import Logs
    from ..probes.owners import is_anothers
    from ..recordings.folder import run_of

    if to is None and is_anothers(folder):
        raise UserError(f"{folder} belongs to another user, so nothing is written into it", "choose a folder with --to")
    run = run_of(folder)
    place = to or folder / "logs"
    if logs_of(str(place)):
        place = place / f"rewritten_{stamp(time.time())}"
    recordings = folder / "recordings"
    last = max((one.lstat().st_mtime for one in recordings.glob("*.rec")), default=run.started)
    written = LogFolder(str(place), run, from_variables(os.environ), run.started, lambda line: speak(line, ""))
    logs = Logs(written, str(recordings), at_once=EVERYTHING)
    logs.tick(last, set(), final=True)
    written.ended(run.status, last)
    written.report(diagnose(folder), last)
    written.close(last)
    print("\n".join(map(str, sorted(place.glob("*.log")))))
    return 0 if logs_of(str(place)) else COULD_NOT_LOOK
