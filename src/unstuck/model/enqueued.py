"""What a rank had done when it enqueued the collective that its GPU is still in.

With NCCL a collective, and DDP's backward, only enqueues: the loop goes on, fetches batches and makes steps, until it
has to wait for the GPU. What the recording says by then is ahead of where the rank really waits for the others.
"""

from __future__ import annotations

import msgspec

from .distributed import Phase
from .recorded import Loader, Process

BODY, BETWEEN = "in the loop's body", "between passes"
CLOCKS = 0.0001  # seconds by which the Flight Recorder's clock and the recording's may differ


def as_of(process: Process, moment: float) -> Process:
    """The process as it was then, as far as that is known."""
    ahead = sum(_after(loader, moment) for loader in process.loaders if loader.optimizer_steps)
    return msgspec.structs.replace(
        process,
        loaders=[_loader(loader, process.phases, moment) for loader in process.loaders],
        phases=[_phase(phase, process, moment) for phase in process.phases if phase.at <= moment + CLOCKS],
        spans=[
            msgspec.structs.replace(span, ended=_then(span.ended, moment))
            for span in process.spans
            if span.at <= moment + CLOCKS
        ],
        optimizer_steps=_steps(process, ahead, moment),
    )


def _after(loader: Loader, moment: float, number: int | None = None) -> int:
    """Batches that came later, of all passes or of one."""
    return sum(at > moment + CLOCKS for of, at in loader.arrived if number in (None, of))


def _then(ended: float | None, moment: float) -> float | None:
    return None if ended is None or ended > moment + CLOCKS else ended


def _stepped(process: Process, moment: float) -> bool:
    """It has made a step since."""
    return process.last_step is not None and process.last_step > moment + CLOCKS


def _steps(process: Process, ahead: int, moment: float) -> int:
    """One for each batch that came later, and the one after this call, as far as every batch makes a step."""
    if not _stepped(process, moment):
        return process.optimizer_steps
    batches = sum(loader.batches for loader in process.loaders if loader.optimizer_steps)
    each = min(process.optimizer_steps / batches, 1.0) if batches else 0.0
    return max(process.optimizer_steps - round((ahead + 1) * each), 0)


def _loader(loader: Loader, phases: list[Phase], moment: float) -> Loader:
    """A trainer's epoch may go on, with validation, when its loader has no more: what has not changed since stays."""
    if loader.now and loader.now_since <= moment + CLOCKS:
        return loader
    begun = [one for one in phases if one.loader == loader.number and one.at <= moment + CLOCKS]
    newest = max(begun, key=lambda one: one.at, default=None)
    if newest is None or newest.number_of_pass is None:
        return loader
    over = newest.ended is not None and newest.ended <= moment + CLOCKS
    batches = loader.pass_batches if newest.number_of_pass == loader.passes else newest.batches
    came = [at for of, at in loader.arrived if of == newest.number_of_pass and at <= moment + CLOCKS]
    return msgspec.structs.replace(
        loader,
        passes=newest.number_of_pass,
        batches=loader.batches - _after(loader, moment),
        pass_batches=batches - _after(loader, moment, newest.number_of_pass),
        now=BETWEEN if over else BODY,
        now_since=(newest.ended or 0.0) if over else max(came, default=newest.at),
    )


def _phase(phase: Phase, process: Process, moment: float) -> Phase:
    if _then(phase.ended, moment) is not None:
        return phase
    loader = next((one for one in process.loaders if one.number == phase.loader), None)
    later = _after(loader, moment, phase.number_of_pass) if loader is not None else 0
    steps = max(phase.steps - later - 1, 0) if _stepped(process, moment) else phase.steps
    return msgspec.structs.replace(phase, ended=None, left=False, batches=max(phase.batches - later, 0), steps=steps)
