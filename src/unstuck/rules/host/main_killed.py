"""A fatal signal ended a training process, or the command itself.

## It means
SIGKILL has a sender: a scheduler at its limit, a supervisor, a person. The other signals (SIGSEGV, SIGBUS, SIGABRT,
SIGILL, SIGFPE, SIGTRAP, SIGSYS) come from native code: a library that read past its memory, an assertion in C++, a
wheel built for another CPU. The shell prints "Segmentation fault (core dumped)", torchrun "exitcode: -11".

## Fix
For SIGKILL, read the log of the scheduler or supervisor for this job. For the others, start at the named line. Where
none is named, run it again with the fault handler, which prints the Python stack at the crash:

```sh
PYTHONFAULTHANDLER=1 python train.py
```

Then check what is passed to native code there (types, shapes, contiguity, an array that was freed), and the versions of
the libraries: two builds of one library in a process (OpenMP, OpenCV, protobuf) crash like this, too. The native stack
tells which library it was:

```sh
gdb -batch -ex run -ex bt --args python train.py
```

## Check it yourself
```sh
sacct -j JOB -o JobID,State,ExitCode,DerivedExitCode     # Slurm
kubectl describe pod NAME                                # Kubernetes: Reason, Exit Code
journalctl -k | grep -iE 'segfault|killed process|oom'   # the kernel's own lines
coredumpctl info                                         # where systemd keeps core dumps
```

## Not this, if
- the kernel's OOM killer did it: [main-oom-killed](main-oom-killed.md), [container-oom-killed](container-oom-killed.md)
- SIGTERM, SIGINT, SIGHUP or the like came from outside: [stopped-from-outside](stopped-from-outside.md)
- a worker crashed: [worker-segfault](worker-segfault.md)
- SIGABRT came from NCCL's watchdog after a timeout: [collective-timeout](collective-timeout.md)

## How sure
Judged from the exit status of every main process, as its parent or the watcher saw it: SIGKILL, or one of the signals
that a crash in native code raises. Where nothing imports torch, that of the command itself. The Python line comes from
what the process wrote down in its last moment; where the program has enabled faulthandler itself, the line is in its
own output. Certain of the signal.

## Seen in
- https://github.com/pytorch/pytorch/issues/61839: torch.distributed.launch reports "died with <Signals.SIGSEGV: 11>"
- https://github.com/NVIDIA/Megatron-LM/issues/1880: torchrun reports exitcode -11 and "Signal 11 (SIGSEGV)"
- https://github.com/pytorch/pytorch/issues/80802: "Segmentation fault (core dumped)" after some epochs
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import COMMAND, SIGKILL, Case, doing_with, reached
from ...analysis.memory import told_of_kill
from ...analysis.rank_deaths import crashed_at
from ...analysis.torch_errors import with_setting
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Process
from ...wording.printable import quoted, quoted_line
from ...wording.text import duration, signal_name, who
from ..rule import Level, rule

TEXTS = (
    "Segmentation fault (core dumped)",
    "Fatal Python error: Segmentation fault",
    "Aborted (core dumped)",
    "Bus error (core dumped)",
    "Illegal instruction (core dumped)",
    "Floating point exception (core dumped)",
    "died with <Signals.SIGSEGV: 11>",
    "Signal 11 (SIGSEGV) received by PID",
    "Signal 6 (SIGABRT) received by PID",
    "exitcode: -11",
)

FATAL = {-4, -5, -6, -7, -8, -11, -31, SIGKILL}
SIGABRT = -6


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("exits",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    for seen in sorted(case.exits or (), key=lambda one: one.at):
        process = case.process(seen.node, seen.pid, seen.at) or case.unrecorded_command(seen)
        if process is None or process.role not in ("main", COMMAND) or seen.status not in FATAL:
            continue
        newest, place = process.newest_loader, crashed_at(process)
        told = (
            [reached(newest), *([f"it was {doing}"] if (doing := doing_with(newest)) else [])]
            if newest is not None
            else []
        )
        if case.run.status == 0:
            told.append("the command went on without it and exited with code 0: its work is missing")
        killed, name = seen.status == SIGKILL, _name(case, process)
        inside = f" in native code, called from {place.function}" if place is not None else ""
        verb = "was killed" if killed else "crashed"
        remedy, *others = _remedies(case, seen.status, place)
        yield case.finding(
            process,
            cause=f"{name[:1].upper()}{name[1:]} {verb} ({signal_name(seen.status)}){inside}.",
            seen=[
                *(told_of_kill(case.host_of(process), process.pid, seen.at) if killed else ()),
                f"{verb} after {duration(seen.at)}",
                *told,
            ],
            remedy=remedy,
            alternatives=others,
            onset_s=seen.at,
            where=place,
        )
        return


def _name(case: Case, process: Process) -> str:
    starter = case.process(process.node, process.parent)
    if starter is not None and starter.role == "main" and process.rank is None:
        return f"child process {process.pid} of the main process (pid {starter.pid})"
    if process.role != COMMAND:
        return who(process)
    program = case.run.command[0].rpartition("/")[2] if case.run.command else "it"
    return f"the command {program} (pid {process.pid})"


def _remedies(case: Case, status: int, place: Place | None) -> list[Remedy]:
    if status == SIGKILL:
        text = "Read in the log of the scheduler or supervisor what killed this job, and at which limit."
        return [Remedy(text, _log(case))]
    again = Remedy(
        "Run it again with the fault handler: it prints the Python line that called native code.",
        [with_setting(case, "PYTHONFAULTHANDLER=1")],
    )
    said = [Remedy("Read what it printed last: an abort mostly says which check failed.")] if status == SIGABRT else []
    if place is None:
        return [again, *said]
    first = Remedy("Check the arguments of the native call at that line, then the versions of its library.")
    program = case.run.command[0].rpartition("/")[2] if case.run.command else ""
    if not program.startswith("python") or len(case.ranks) > 1:
        return [first, *said]
    debugger = f"gdb -batch -ex run -ex bt --args {quoted_line(case.run.command)}"
    return [first, *said, Remedy("Get the native stack, which names the library.", [debugger])]


def _log(case: Case) -> list[str]:
    if case.run.scheduler == "Slurm":
        return ['sacct -u "$USER" -S today -o JobID,JobName,State,ExitCode,Elapsed,Timelimit,MaxRSS']
    if case.run.scheduler == "Kubernetes" and case.run.host:
        return [f"kubectl describe pod {quoted(case.run.host)}"]
    return []
