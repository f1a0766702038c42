"""Predict how much memory and /dev/shm a loader needs before it runs, from a few samples and one worker.

Each term is shown as a multiplication. The sum for a rank and for the node is compared with the memory of this machine,
of its cgroup or --memory. --workers, --batch, --prefetch and --ranks answer what-if questions.

  unstuck budget train.py:make_loader
  unstuck budget train.py:make_loader --workers 16 --prefetch 4 --ranks 8
  unstuck budget --sample-mb 220 --workers 16 --batch 8 --prefetch 2 --decode-mb 1800 --memory 512G
"""

from __future__ import annotations

import argparse
import sys

import msgspec

from ..errors import UserError
from ..evidence.loader import Loader
from ..evidence.trial import Budget, Loaded, Needs, Shuffle, Target, Trial
from ..inside.redaction import redacted_values
from ..report import Report
from ..trials.attempt import Limits, Outcome, Work, attempt, prepare
from ..trials.budget.advice import advised, budget_of
from ..trials.budget.predict import PREFETCH, Plan
from ..trials.cleanup import heard
from ..trials.doctor.ladder import Step
from ..trials.doctor.verdicts import rung_of
from ..trials.memory import Room, room
from ..views.budgets import show_budget
from ..views.console import console_for
from ..views.progress import Climbing
from .arguments import count, size
from .target import add_target_arguments, exit_code, judged, printed, work_of

MB = 1_000_000
HALF = "half of the memory, the default of Linux"
LIMITS = Limits(seconds=120.0)
RESERVE = 0.1  # of what is free stays free: a sample that wants too much is to be ended by us, not by the kernel
STEP = Step("samples", "load a few samples, one batch, run one worker", "samples", {"batch": True, "memory": True})
CONSTRUCT = Step("construct", "import the target and make its loader", "samples")  # it got no further
HANDED = "--sample-mb: the size that the training gets (480×480×240 float32 is 221 MB), not the peak while it is loaded"
PLAIN = ("decode_mb", "shuffle", "raw_mb", "dataset_mb")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target_arguments(parser, required=False)
    parser.add_argument(
        "--ranks", type=positive, default=1, metavar="N", help="training processes on this node (default: 1)"
    )
    parser.add_argument(
        "--shm", type=size, metavar="SIZE", help="size of /dev/shm, such as 64M (default: what is free here)"
    )
    plain = parser.add_argument_group("without a TARGET, calculated from numbers")
    plain.add_argument("--sample-mb", type=amount, metavar="MB", help="size of one sample as the training gets it")
    plain.add_argument(
        "--decode-mb", type=amount, metavar="MB", help="extra memory while a sample is loaded and decoded"
    )
    plain.add_argument("--shuffle", type=count, metavar="N", help="samples in the shuffle buffer of each worker")
    plain.add_argument("--raw-mb", type=amount, metavar="MB", help="size of one sample in that buffer")
    plain.add_argument("--dataset-mb", type=amount, metavar="MB", help="size of the Python objects in the dataset")


def positive(text: str) -> int:
    if not count(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return int(text)


def amount(text: str) -> int:
    """Bytes."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of megabytes")
    return int(value * MB)


def run(arguments: argparse.Namespace) -> int:
    there = room(arguments.memory, arguments.shm)
    if arguments.target is None:
        if arguments.memory is not None and arguments.shm is None:
            there = there._replace(shm_size=arguments.memory // 2, shm_free=arguments.memory // 2, shm_of=HALF)
        trial, work = Trial("budget", budget=_by_numbers(arguments, there)), None
    else:
        if arguments.sample_mb is not None or any(getattr(arguments, name) is not None for name in PLAIN):
            raise UserError("a TARGET is measured, not calculated", "remove it, or remove --sample-mb and the like")
        heard()
        work = work_of(arguments, "budget")
        trial = _measured(arguments, work, there)
    report = judged(trial, work)
    _tell(report, arguments, work)
    return exit_code(report)


def _tell(report: Report, arguments: argparse.Namespace, work: Work | None) -> None:
    if arguments.json:
        printed(report, arguments, work)
    else:
        console = console_for(sys.stdout, plain=arguments.plain)
        show_budget(report, console, str(work.folder) if work is not None else "", verbose=arguments.verbose)


def _measured(arguments: argparse.Namespace, work: Work, there: Room) -> Trial:
    """The loader is measured as it is: what is asked for instead is arithmetic."""
    with Climbing(sys.stderr, [STEP]) as climbing:
        prepare()
        limits = LIMITS._replace(memory=int(room().memory * (1 - RESERVE)))
        climbing.begins(STEP)
        options = {**STEP.options, "worker": arguments.workers}
        outcome = attempt(STEP.what, STEP.name, work, options, limits, lambda s: climbing.goes_on(STEP, s))
    return _trial(arguments, work, outcome, limits, there)


def _trial(arguments: argparse.Namespace, work: Work, outcome: Outcome, limits: Limits, there: Room) -> Trial:
    facts = outcome.facts
    loader = msgspec.convert(facts["loader"], Loader) if "loader" in facts else None
    step = STEP if loader is not None else CONSTRUCT
    rung = rung_of(step, outcome, limits, None)
    samples = msgspec.convert(facts.get("samples") or [], list[Loaded])
    target = Target(work.target, redacted_values(work.kwargs), facts.get("gave", ""), loader)
    trial = Trial("budget", target, rungs=[rung], samples=samples)
    if loader is None or not samples:
        return trial
    if arguments.batch is not None and loader.batch_sampler is None:
        remedy = "change the batch size in the dataset, then measure again"
        raise UserError("--batch: this loader has batch_size=None, because its dataset yields whole batches", remedy)
    wishes = {name: getattr(arguments, name) for name in ("workers", "batch", "prefetch", "ranks")}
    return msgspec.structs.replace(trial, budget=budget_of(facts, loader, there, **wishes))


def _by_numbers(arguments: argparse.Namespace, there: Room) -> Budget:
    if not arguments.sample_mb:
        raise UserError("no TARGET and no --sample-mb", "name a TARGET, or give --sample-mb with --workers and --batch")
    sample, decode, raw = arguments.sample_mb, arguments.decode_mb, arguments.raw_mb
    taken = [
        *([HANDED] if decode is None else []),
        *([] if arguments.workers is not None else ["--workers: 0, torch's default"]),
        *([] if arguments.batch is not None else ["--batch: 1, torch's default"]),
        *(
            []
            if arguments.prefetch is not None or not arguments.workers
            else [f"--prefetch: {PREFETCH}, torch's default"]
        ),
        *([] if decode is not None else ["--decode-mb: as much again as the sample, while it is loaded"]),
        *(["--raw-mb: as large as the sample"] if arguments.shuffle and raw is None else []),
    ]
    decode = sample if decode is None else decode
    element = sample if raw is None else raw
    buffer = [Shuffle("a shuffle buffer", arguments.shuffle, element, looked=1)] if arguments.shuffle else []
    one = Loaded(size=sample, storage=sample, shm=sample, held=sample, peak=sample + decode)
    needs = Needs([one], objects=arguments.dataset_mb, shuffles=buffer, method="fork", measured=False)
    plan = Plan(arguments.workers or 0, arguments.batch or 1, _prefetch(arguments), arguments.ranks)
    found = advised(needs, plan, there, asked_prefetch=arguments.prefetch)
    return msgspec.structs.replace(found, assumed=[*taken, *found.assumed])


def _prefetch(arguments: argparse.Namespace) -> int:
    return arguments.prefetch if arguments.prefetch is not None else PREFETCH
