"""Test a loader step by step, before a long run depends on it.

TARGET is module:callable or path.py:callable and returns a DataLoader, a Dataset or a LightningDataModule. Each step is
a recorded process with a time limit and a memory limit: one sample, several samples, a batch, the loader without
workers, with 1, with its own number; a second epoch, a stop in mid-epoch, spawned workers, 2 ranks, a benchmark.
The first step that fails is marked, with its cause. No process and nothing in /dev/shm is left behind.

  unstuck doctor train.py:make_loader
  unstuck doctor my.data:Images --kwargs root=/data size=224 --workers 8
"""

from __future__ import annotations

import argparse
import sys

from ..errors import UserError
from ..evidence.trial import FAIL
from ..probes.machine_settings import look
from ..report import Report
from ..trials.attempt import Limits, Work, prepare
from ..trials.cleanup import heard
from ..trials.doctor.climb import Asked, climb
from ..trials.doctor.environment import notes
from ..trials.doctor.ladder import LADDER, chosen
from ..trials.memory import memory_free
from ..views.console import console_for
from ..views.progress import Climbing
from ..views.trials import show_doctor
from .arguments import above_zero
from .main import FOUND
from .target import add_target_arguments, exit_code, judged, printed, wishes, work_of

LIMIT = 60.0  # seconds for a rung; more where importing takes long
RESERVE = 0.1  # of what is free stays free: a loader that wants too much is to be ended by us, not by the kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser, required=False)
    parser.add_argument("--only", metavar="NAMES", help="steps to run, such as no-workers,workers")
    parser.add_argument("--skip", metavar="NAMES", help="steps to skip")
    parser.add_argument("--quick", action="store_true", help="skip the steps spawn, ranks and benchmark")
    parser.add_argument("--list", action="store_true", help="list the steps and exit")
    parser.add_argument(
        "--limit", type=above_zero, metavar="S", help="time limit of each step, in seconds (default: 60)"
    )
    parser.add_argument(
        "--stall",
        type=above_zero,
        default=30.0,
        metavar="S",
        help="end a step after S seconds without progress (default: 30)",
    )
    parser.add_argument(
        "--step-ms", type=above_zero, metavar="MS", help="time of a training step, which the loader has to keep up with"
    )


def run(arguments: argparse.Namespace) -> int:
    steps = chosen(arguments.only, arguments.skip, quick=arguments.quick)
    if arguments.list:
        for step in LADDER:
            print(f"{step.name:<13} {step.title}")
        return 0
    if not arguments.target:
        raise UserError(
            "doctor needs a TARGET", "name path.py:callable or module:callable; see `unstuck doctor --help`"
        )
    heard()
    work = work_of(arguments, "doctor")
    with Climbing(sys.stderr, steps) as climbing:
        prepare()
        settings = look(work.python)
        free = memory_free(settings)
        memory = arguments.memory or (int(free * (1 - RESERVE)) if free is not None else None)
        limits = Limits(arguments.limit or LIMIT, memory, arguments.stall)
        training = arguments.step_ms / 1e3 if arguments.step_ms else None
        asked = Asked(work, steps, wishes(arguments), limits, training, arguments.limit is None, arguments.memory)
        trial = climb(asked, settings, climbing)
    report = judged(trial, work)
    _tell(report, arguments, work)
    return FOUND if any(one.status == FAIL for one in trial.rungs) else exit_code(report)


def _tell(report: Report, arguments: argparse.Namespace, work: Work) -> None:
    if arguments.json:
        printed(report, arguments, work)
        return
    trial = report.trial
    if trial is not None and trial.settings is not None:
        console = console_for(sys.stdout, plain=arguments.plain)
        show_doctor(report, notes(trial.settings), console, str(work.folder), verbose=arguments.verbose)
