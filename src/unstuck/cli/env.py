"""Print the variables that switch recording on for a whole shell, a Slurm script or a pod.

    eval "$(unstuck env)"
    python train.py

Every training started from there on is recorded into a folder of its own and watched from a process beside it.
`unstuck env --off` prints what switches it off again.

    unstuck env --slurm -- python train.py --config base.yaml >> submit_train.sh

prints a block for a job script instead: the same variables, what is worth to be known of others, and the line that
starts the training.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from ..errors import UserError
from ..inside import run_folder
from ..inside.format import SAMPLE_TIMES
from ..watching.running import BOOTSTRAP, python_path

NAMES = (run_folder.RUNS, run_folder.WATCHER, SAMPLE_TIMES)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run-dir", type=Path, default=Path("unstuck-runs"), metavar="DIR", help="where run folders go"
    )
    parser.add_argument(
        "--sample-times", action="store_true", help="a line about every sample in its rank's log, stage by stage"
    )
    parser.add_argument("--off", action="store_true", help="print what switches recording off again")
    parser.add_argument(
        "--slurm", action="store_true", help="print a block for a job script, with the line to start it"
    )
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="with --slurm: the training, after `--`")


def run(arguments: argparse.Namespace) -> int:
    if arguments.command and not arguments.slurm:
        raise UserError("env takes no command", "`unstuck env --slurm -- COMMAND` makes a job script's block of one")
    before = os.pathsep.join(
        entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOTSTRAP
    )
    if arguments.off:
        print("\n".join(f"unset {name}" for name in (*NAMES, "UNSTUCK_PYTHONPATH")))
        print(f"export PYTHONPATH={shlex.quote(before)}" if before else "unset PYTHONPATH")
        return 0
    try:
        arguments.run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"no recording in {arguments.run_dir} ({error.strerror})", "--run-dir DIR names another place"
        ) from error
    if arguments.slurm:
        from .slurm import block

        runs = arguments.run_dir.absolute()
        print(block(runs, sys.executable, arguments.command, sample_times=arguments.sample_times))
        return 0
    wanted = {
        run_folder.RUNS: str(arguments.run_dir.absolute()),
        run_folder.WATCHER: sys.executable,
        "UNSTUCK_PYTHONPATH": before,
        "PYTHONPATH": python_path(),
    }
    if arguments.sample_times:
        wanted[SAMPLE_TIMES] = "1"
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in wanted.items()))
    return 0
