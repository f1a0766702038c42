"""A signal from outside ended the run: a time limit, preemption, `scancel`, Ctrl-C.

## What it looks at
Signals that came for the command while `unstuck run` stood above it, with their senders; exit statuses; the exception
by which Python (KeyboardInterrupt) or torchrun (SignalException) leaves at a signal; the scheduler's time limit
(`SLURM_JOB_END_TIME`). Then which save was the last to be completed, and how many steps were made after it.

## Why it happens
Slurm sends SIGTERM at the time limit, at preemption and at `scancel`, and SIGKILL 30 s later. Kubernetes does the same
when a pod is evicted or deleted. A closed terminal sends SIGHUP, a limit of CPU time SIGXCPU, a person SIGINT.

## What to do
Resume from the checkpoint that is named. To lose less next time, save in a handler of the signal, and have Slurm send
one before the limit: `--signal=B:USR1@120`, with `--requeue`.

## How sure it is
Certain of the signal. Which scheduler sent it, and why, is said only as far as its limit, its variables or the sender's
name show it. Where processes and watcher are gone without an exit status it is likely: SIGKILL to all of them, or a
machine that was switched off. A run that was stalled before it was stopped is stuck; the stop is the consequence. A
signal that the command ignored, or after which it trained on, is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, reached
from ...analysis.rank_deaths import told_alone
from ...analysis.stops import Covered, Stop, before_limit, checkpoint, coverage, covered, standstill, stop_of
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, ending, signal_name
from ..rule import rule

AT_THE_LIMIT = 60.0  # seconds: Slurm looks after its limits that often
NEAR = 900.0  # seconds before the limit: signals that are asked for by --signal come in these
SENDERS = {
    "slurmstepd": "Slurm", "slurmd": "Slurm", "timeout": "timeout(1)", "unstuck": "unstuck (--on-stall stop)",
    "systemd": "systemd", "systemd-oomd": "systemd-oomd, which ends what holds too much memory",
}  # fmt: skip
# Of these, the signal itself says what to do.
ADVICE = {
    1: "The terminal or the ssh connection was closed. Start the run in tmux, with nohup, or as a job",
    13: "What read its output has ended. Write the output into a file",
    14: "A timer ended it: look for `signal.alarm`, or for `alarm` in what starts it",
    24: "Its limit of CPU time was reached. Raise it (`ulimit -t`, or the queue's limit)",
}


@rule(
    explains=Symptom.STOPPED,
    certainty=Certainty.CERTAIN,
    needs=("exits|host",),
    yields_to=(
        Symptom.STUCK,
        "stuck-in-user-code",
        "collectives-out-of-step",
        "rendezvous-peer-missing",
        "container-oom-killed",
        "main-oom-killed",
    ),
)
def check(case: Case) -> Iterator[Finding]:
    stop = None if told_alone(case) else stop_of(case)
    if stop is None:
        return
    saved = covered(case, stop.at)
    name = f"by {signal_name(-stop.signal)}" if stop.signal else "without a last word"
    yield case.finding(
        cause=f"The run was stopped {name} {duration(stop.at)} after its start{_limit(case, stop)}"
        f"{checkpoint(case, saved)}.",
        seen=list(_seen(case, stop, saved)),
        remedy=_remedy(case, stop, saved),
        node=case.run.host or None,
        pid=case.run.pid,
        onset_s=stop.at,
        certainty=stop.certainty.value,
    )


def _limit(case: Case, stop: Stop) -> str:
    left = before_limit(case, stop.at)
    if left is None or not -AT_THE_LIMIT <= left <= NEAR:
        return ""
    return f", {duration(abs(left))} {'before' if left > 0 else 'after'} {case.run.scheduler}'s time limit"


def _seen(case: Case, stop: Stop, saved: Covered | None) -> Iterator[str]:
    yield from _end(case, stop)
    yield from _sender(case, stop)
    stood = standstill(case, stop.at)
    if stood is not None:
        yield f"no progress for {duration(stood)} before that"
    yield from coverage(case, saved)
    newest = [one for process in case.mains[:1] if (one := process.newest_loader) is not None]
    yield from (reached(one) for one in newest)


def _end(case: Case, stop: Stop) -> Iterator[str]:
    status = case.run.status
    if not stop.signal:
        yield "its processes are gone, without an exception, an exit status or a regular end"
        if any(one.broke_off for one in case.host or ()):
            yield "the watcher was killed at the same time: SIGKILL to the whole job, or the machine went down"
        return
    ends = [seen.at for seen in case.exits or () if case.is_command(seen.node, seen.pid)]
    later = f" {duration(min(ends) - stop.at)} later" if ends and stop.told is not None else ""
    if status is not None:
        yield f"the command {ending(status)}{later}"
    else:
        yield f"the main process ended by {signal_name(-stop.signal)}"


def _sender(case: Case, stop: Stop) -> Iterator[str]:
    told, left, scheduler = stop.told, before_limit(case, stop.at), case.run.scheduler
    if told is not None and told.by:
        own = ", a process of this run" if case.process(case.run.host, told.pid) is not None else ""
        yield f"sent by {SENDERS.get(told.by, told.by)} (pid {told.pid}{own})"
    elif told is not None and told.terminal:
        key = {2: "Ctrl-C", 3: "Ctrl-\\"}.get(told.signal)
        yield f"sent by the kernel: {key} at the terminal" if key else "sent by the kernel: a terminal or a timer"
        return
    if left is not None and abs(left) <= AT_THE_LIMIT:
        yield f"likely {scheduler}'s time limit: it was {duration(abs(left))} {'ahead' if left > 0 else 'ago'}"
    elif told is not None and told.by and SENDERS.get(told.by) != scheduler:
        return
    elif scheduler == "Slurm":
        ahead = "" if left is None else f" (the time limit was {duration(max(left, 0.0))} ahead)"
        yield f"possible in a Slurm job: scancel, preemption, or --signal{ahead}"
    elif scheduler == "Kubernetes" and stop.signal == 15:
        yield "possible in a Kubernetes pod: eviction, preemption, or the pod was deleted"


def _remedy(case: Case, stop: Stop, saved: Covered | None) -> Remedy:
    resume = f"Resume from {saved.saved.path}." if saved is not None else ""
    if stop.signal in ADVICE:
        return Remedy(f"{ADVICE[stop.signal]}. {resume}".strip())
    if case.run.scheduler == "Slurm":
        text = "Have Slurm requeue the job, and send a signal 2 min before the limit; save in its handler."
        return Remedy(f"{resume} {text}".strip(), ["sbatch --requeue --signal=B:USR1@120 job.sh"])
    if not any(one.optimizer_steps for one in case.mains):
        return Remedy("Nothing in the run failed: look for what sent the signal, and start the run again.")
    if saved is not None and (saved.steps == 0 or not saved.age):
        return Remedy(resume)
    text = "To lose nothing next time, set a flag in a handler of the signal; check it every step, save and leave."
    return Remedy(f"{resume} {text}".strip())
