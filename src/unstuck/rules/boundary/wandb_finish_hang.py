"""Weights & Biases' finish() waits for an upload without progress, so a run that is done does not end.

## It means
In online mode `wandb.log` only puts rows into a local file and a queue; `wandb-core`, a process of its own, uploads
them. `finish()` waits until all of it has arrived, without a timeout: where the network is slow, filtered or gone, it
waits forever. An exit without `finish()` waits in the same way.

## Fix
Stop the run with Ctrl-C: training is done, and the rows it logged are on disk in the run's folder. Upload them from
where the server can be reached:

```sh
wandb sync wandb/run-20260101_120000-abcd1234
```

For the next run, train offline and upload afterwards; or, from wandb 0.27 on, limit the wait. After that timeout the
run is shown as crashed, and `wandb sync` uploads the rest:

```sh
WANDB_MODE=offline python train.py
WANDB_FINISH_TIMEOUT=60 python train.py
```

Set the limit as an environment variable: older versions ignore it, while `wandb.Settings(finish_timeout=60)` raises
there.

## Check it yourself

```sh
tail -f wandb/latest-run/logs/debug-internal.log       # retries, or uploads that go on?
curl -sS -m 5 -o /dev/null https://api.wandb.ai        # can the server be reached from here?
ls -l wandb/latest-run/                                # the rows: a file that ends in .wandb
```

## Not this, if
- the upload goes on, only slowly: wandb-core sends more than a few kilobytes a second
- training has not begun: [wandb-init-timeout](wandb-init-timeout.md)
- training still runs: [logger-no-answer](logger-no-answer.md), [logger-blocks-epoch-end](logger-blocks-epoch-end.md)
- another thread keeps the process alive: [nondaemon-thread-exit](nondaemon-thread-exit.md)

## How sure
Judged from a main process that is inside `wandb.finish` (or inside wandb's own code at exit) for ten seconds or more,
in the recording or on its stack; in which mode wandb is; and how much wandb-core, the process that uploads, sends.
Certain that it waits there. Silent while wandb-core sends more than a few kilobytes a second: that upload takes time.

## Seen in
- https://github.com/wandb/wandb/issues/4929: wandb.finish() stuck although all data was uploaded
- https://github.com/wandb/wandb/issues/5601: of five parallel trainings about one hung at wandb.finish()
- https://github.com/wandb/wandb/issues/4441: "Waiting for W&B process to finish" for 15 to 20 minutes after each run
- https://github.com/wandb/wandb/issues/11179: endless "uploading" lines with 0.23.1
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import culprit, state
from ...analysis.side_work import gets_on, hung_calls, modes
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import LONG, descendants, mains
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Seen, Stack
from ...evidence.process import Process
from ...wording.printable import quoted, quoted_line
from ...wording.text import duration, size
from ..rule import Level, rule

TEXTS = ("wandb: Waiting for W&B process to finish", "uploading history steps")
FINISHING = ("finish", "_finish", "_on_finish", "teardown", "teardown_atexit")
SERVICE = "wandb-core"


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes|recording",),
    level=Level.CAUSE,
    outranks=("logger-blocks-epoch-end",),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        open_ = [one for one in hung_calls(case) if one.main is main and one.call.name == "wandb.finish"]
        seen = next((one for one in case.processes or () if one.pid == main.pid), None)
        for one in open_:
            yield _finding(case, main, one.seconds, one.where, _service(case, seen))
            return
    for seen, stack in mains(case):
        stuck = culprit(case, seen, stack)
        waits = case.process(seen.node, seen.pid) is None and _finishes(stack) and stuck.seconds >= LONG
        if waits and not gets_on(case, seen):
            where = place(user_frame(stack.calls))
            yield _finding(case, seen, stuck.seconds, where, [state(stuck), *_service(case, seen)])
            return


def _finishes(stack: Stack) -> bool:
    return any("-packages/wandb/" in one.file and one.name in FINISHING for one in stack.calls)


def _cores(case: Case, seen: Seen) -> list[Seen]:
    return [one for one in descendants(case, seen.pid) if SERVICE in one.name or SERVICE in " ".join(one.command)]


def _service(case: Case, seen: Seen | None) -> list[str]:
    """What the process that uploads did."""
    return [
        f"wandb-core (pid {core.pid}), which uploads, wrote {size(core.written)} over a {duration(core.looked)} sample"
        for core in (_cores(case, seen) if seen is not None else ())
    ]


def _finding(case: Case, main: Process | Seen, seconds: float, where: Place | None, told: list[str]) -> Finding:
    process = main if isinstance(main, Process) else None
    logger = next((one for one in reversed(process.loggers) if one.name == "wandb"), None) if process else None
    call = "wandb.finish()" if where is not None else "wandb, at exit,"
    rank = f"Rank {main.rank}" if main.rank is not None else "Training"
    folder = logger.folder if logger is not None and logger.folder else ""
    command = quoted_line(case.run.command) or "python train.py"
    on_disk = [f"the rows it logged are on disk in {folder}"] if folder else []
    modes_told = [modes(process)] if process is not None and process.loggers else []
    return case.finding(
        main,
        cause=f"{rank} is done; {call} has been uploading for {duration(seconds)} without progress.",
        seen=[*told, *on_disk, *modes_told] or ["wandb waits for its upload without a timeout"],
        remedy=Remedy(
            "Stop the run with Ctrl-C, and upload its rows later, from where the server can be reached",
            [f"wandb sync {quoted(folder or 'wandb/latest-run')}"],
        ),
        alternatives=[
            Remedy("Train offline from the next run on, and upload afterwards", [f"WANDB_MODE=offline {command}"]),
            *case.from_version(
                "wandb",
                0,
                27,
                remedy=Remedy(
                    "Limit the wait from the next run on; a run that times out is shown as crashed",
                    [f"WANDB_FINISH_TIMEOUT=60 {command}"],
                ),
            ),
        ],
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("logger", "wandb"),
    )
