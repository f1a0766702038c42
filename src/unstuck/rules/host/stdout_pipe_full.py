"""The training writes into a pipe that is not read: it is full, and the next print blocks forever.

## It means
A wrapper, a notebook or a graphical front end started the training with `stdout=PIPE` and waits for it to end instead
of reading. A pipe holds 64 KiB. The print that finds it full blocks until something reads. In a terminal the same
script works.

## Fix
Read the pipe while the process runs, or send the output to a file:

```python
process = subprocess.Popen(command, stdout=subprocess.PIPE)  # before
process.wait()

process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in process.stdout:  # after
    print(line, end="")

with open("train.log", "w") as log:  # or
    subprocess.run(command, stdout=log, stderr=subprocess.STDOUT)
```

Reading the pipe once lets this run go on, until it is full again:

```sh
timeout 5 cat /proc/PID/fd/1 > unread-output.txt
```

## Check it yourself
```sh
cat /proc/PID/wchan; ls -l /proc/PID/fd/1 /proc/PID/fd/2      # pipe_write, and a pipe
py-spy dump --pid PID | head -5                               # print, write or flush on top
```

## Not this, if
- a worker waits for a FIFO, a file or a server: [worker-blocked-io](worker-blocked-io.md)
- the loop waits for a logger: [logger-no-answer](logger-no-answer.md)

## How sure
Judged from a thread that is blocked in a write to a pipe while nothing is written, which of the process's descriptors
that is, and which process holds the other end. Sure: the kernel shows the write and the pipe.

## Seen in
- https://github.com/localstack/localstack/pull/1101: Popen.wait() with stdout=PIPE hangs once the output is large
- https://github.com/litz-lab/scarab-infra/pull/296: output beyond 64 KiB deadlocks its caller
- https://github.com/google/turbinia/issues/945: the subprocess has done its work, but cannot write its output
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found, state
from ...analysis.standstill import LONG, main_stack
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited, Seen, Stack
from ..rule import Level, rule

STREAMS = {1: "its standard output", 2: "its standard error"}
WRITING = ("write", "writev")
LAUNCHING = ("popen_spawn_posix.py", "popen_forkserver.py")


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        awaits, stack = _full_pipe(seen), main_stack(case, seen.pid)
        if awaits is None or stack is None or _starts_a_child(stack):
            continue
        one = culprit(case, seen, stack)
        if one.seconds < LONG:
            continue
        descriptor = awaits.descriptor
        stream = STREAMS.get(descriptor or 0, f"descriptor {descriptor}")
        reader = awaits.holders[0] if awaits.holders else None
        whose = f"pid {reader.pid}" if reader is not None else "no process"
        told = [f"pid {reader.pid} is `{reader.command}`: it holds the other end"] if reader is not None else []
        yield found(
            one,
            f"{one.name} is blocked: {stream} is a full pipe that {whose} "
            f"{'does not read' if reader is not None else 'reads'}.",
            [state(one), *told, calls(one)],
            Remedy(
                "Read the output while the training runs, where it is started.",
                code=["for line in process.stdout:", '    print(line, end="")'],
            ),
            case,
            Subject("pipe", stream),
            [
                Remedy(
                    "Send the output to a file, where it is started.",
                    code=['subprocess.run(command, stdout=open("train.log", "w"), stderr=subprocess.STDOUT)'],
                ),
                Remedy(
                    "Read the pipe once: this run goes on until it is full again.",
                    [f"timeout 5 cat /proc/{seen.pid}/fd/{descriptor} > unread-output.txt"],
                ),
            ],
        )
        return


def _starts_a_child(stack: Stack) -> bool:
    """multiprocessing sends it the dataset, and it will read as soon as it has imported everything."""
    return any(call.file.endswith(LAUNCHING) for call in stack.calls)


def _full_pipe(seen: Seen) -> Awaited | None:
    task = seen.main_task
    waits = task.syscall in WRITING or "pipe_write" in task.wait_channel
    if not waits or task.awaits is None or task.awaits.kind not in ("pipe", "fifo") or task.written:
        return None
    return task.awaits
