"""A signal from outside ended the run: a time limit, preemption, `scancel`, Ctrl-C.

## It means
Slurm sends SIGTERM at the time limit, at preemption and at `scancel`, and SIGKILL 30 s later. Kubernetes does the same
when a pod is evicted or deleted. A closed terminal sends SIGHUP, a limit of CPU time SIGXCPU, a person SIGINT. Nothing
in the training failed.

## Fix
Resume from the checkpoint that is named. To lose less next time, save when the signal comes:

```python
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
signal.signal(signal.SIGUSR1, lambda *_: stop.set())

for step, batch in enumerate(loader):
    train(batch)
    if stop.is_set():  # several ranks: all-reduce this flag first, so all of them leave at the same step
        save_checkpoint(model, optimizer, scheduler, step)
        break
```

Slurm sends a signal before the limit if asked, to what `srun` starts:

```sh
sbatch --requeue --signal=USR1@120 job.sh            # 2 min before the limit
```

torchrun does not expect SIGUSR1: use `--signal=TERM@120` there, which it passes on before it waits 30 s for its ranks.
With `--signal=B:USR1@120` only the batch script gets the signal, and without a `trap` for it the job ends right then.

## Check it yourself
```sh
sacct -j JOB -o JobID,State,ExitCode,Elapsed,Timelimit    # TIMEOUT, PREEMPTED, CANCELLED by UID
kubectl describe pod NAME; kubectl get events             # Evicted, Preempted, Killing
```

## Not this, if
- the memory limit was reached: [container-oom-killed](container-oom-killed.md), [main-oom-killed](main-oom-killed.md)
- it was SIGKILL or a crash of one process alone: [main-killed](main-killed.md)
- nothing moved before it was stopped: that is what to look at, and the stop is the consequence
- a rank ended first, and the launcher stopped the others: [rank-crash-cascade](rank-crash-cascade.md)

## How sure
Judged from signals that came for the command while `unstuck run` was its parent, with their senders; from exit
statuses; from the exception by which Python (KeyboardInterrupt) or torchrun (SignalException) leaves at a signal; and
from the scheduler's time limit (`SLURM_JOB_END_TIME`). Then from which save was the last to be completed, and how many
steps were made after it.
Certain of the signal. Which scheduler sent it, and why, is said only as far as its limit, its variables or the sender's
name show it. Where processes and watcher are gone without an exit status it is likely: SIGKILL to all of them, or a
machine that was switched off. A run that was stalled before it was stopped is stuck; the stop is the consequence. A
signal that the command ignored, or after which it trained on, is not reported.

## Seen in
- https://github.com/Lightning-AI/pytorch-lightning/issues/20542: "CANCELLED AT ... DUE TO TIME LIMIT", not requeued
- https://github.com/kyutai-labs/pocket-tts/pull/277: saves at SIGTERM; the flag is all-reduced, so ranks leave together
- https://github.com/swiss-ai/Megatron-LM/issues/3: torchrun keeps the signal of `--signal` from its ranks
- https://github.com/NVIDIA-NeMo/Automodel/issues/405: a checkpoint when Slurm sends SIGTERM
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, reached
from ...analysis.rank_deaths import told_alone
from ...analysis.stops import Covered, Stop, before_limit, checkpoint, coverage, covered, standstill, stop_of
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, signal_name
from ..rule import rule

TEXTS = (
    "DUE TO TIME LIMIT",
    "DUE TO PREEMPTION",
    "SignalException: Process",
    "got signal: 15",
    "KeyboardInterrupt",
    "Terminated",
)

AT_THE_LIMIT = 60.0  # seconds: Slurm looks after its limits that often
NEAR = 900.0  # seconds before the limit: signals that are asked for by --signal come in these
SENDERS = {
    "slurmstepd": "Slurm", "slurmd": "Slurm", "timeout": "timeout(1)", "unstuck": "unstuck (--on-stall stop)",
    "systemd": "systemd", "systemd-oomd": "systemd-oomd, which ends what holds too much memory",
}  # fmt: skip
# Of these, the signal itself says what to do.
ADVICE = {
    1: "Start the run in tmux, with nohup, or as a job: the terminal or the ssh connection was closed.",
    13: "Write the output into a file: what read it has ended.",
    14: "Find signal.alarm in the program, or the timer in what starts it.",
    24: "Raise the limit of CPU time (ulimit -t, or the queue's limit).",
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
    by = f" by {signal_name(-stop.signal)}" if stop.signal else ", without an exit status,"
    remedy, *others = _remedies(case, stop, saved)
    yield case.finding(
        cause=f"The run was stopped{by} after {duration(stop.at)}{_limit(case, stop) or checkpoint(case, saved)}.",
        seen=list(_seen(case, stop, saved)),
        remedy=remedy,
        alternatives=others,
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
    if saved is None and _limit(case, stop) and (none := checkpoint(case, None)):
        yield none.removeprefix("; ")
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
        how = f"was stopped ({signal_name(status)})" if status < 0 else f"exited with code {status}"
        yield f"the command {how}{later}"
    else:
        yield f"the main process was stopped ({signal_name(-stop.signal)})"


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


def _remedies(case: Case, stop: Stop, saved: Covered | None) -> list[Remedy]:
    resume = [Remedy(f"Resume from {saved.saved.path}.")] if saved is not None else []
    if stop.signal in ADVICE:
        return [*resume, Remedy(ADVICE[stop.signal])]
    if case.run.scheduler == "Slurm":
        name = _asked_for(case)
        return [*resume, _requeue(name), _save(name)]
    if not any(main.optimizer_steps for main in case.mains):
        return [Remedy("Find what sent the signal, and start the run again: nothing in it failed.")]
    if saved is not None and (saved.steps == 0 or not saved.age):
        return resume
    return [*resume, _save(signal_name(-stop.signal) if stop.signal else "SIGTERM")]


def _asked_for(case: Case) -> str:
    """The signal to ask Slurm for: torchrun passes SIGTERM on to its ranks, and does not expect SIGUSR1."""
    return "SIGTERM" if any(process.role == "launcher" for process in case.recording or ()) else "SIGUSR1"


def _requeue(name: str) -> Remedy:
    return Remedy(
        f"Have Slurm send {name} to what srun starts, 2 min before the limit, and requeue the job.",
        [f"sbatch --requeue --signal={name.removeprefix('SIG')}@120 job.sh"],
    )


def _save(name: str) -> Remedy:
    return Remedy(
        f"Save when {name} comes, to lose nothing next time.",
        code=[
            f"signal.signal(signal.{name}, lambda *_: stop.set())    # stop = threading.Event()",
            "if stop.is_set():    # after each step: save, then break",
        ],
    )
