"""Whether anything of a training was seen: batches, steps, data on its way. Without that no run is called healthy."""

from __future__ import annotations

from .doing import COLLECTIVE, OWN, doing
from .evidence import Evidence
from .feeding import gave_batches
from .look import Seen, Stack
from .progress import helped, spins, wraps
from .recorded import Process
from .standing import earlier, mains, same_place

NOTHING = "Nothing of a training was seen"
HIDDEN = " (python -I and an emptied environment hide it)"
UNKNOWN_LOOP = (
    "It may be none, or a loop without DataLoader and torch's optimizers: unstuck.progress(…) makes that visible."
)


def trained(evidence: Evidence) -> bool:
    """By what is recorded. Of a run that goes on, something on its way to the first batch will do."""
    if any(_shows_progress(one) for one in evidence.recording or ()):
        return True
    return evidence.run.status is None and _moves(evidence)


def nothing_of_it(evidence: Evidence) -> str:
    """What is told of a run that was looked at, and in which nothing of a training was seen. Else nothing."""
    if evidence.run.status not in (0, None) or trained(evidence) or not _looked(evidence):
        return ""
    if evidence.recording is None and not evidence.processes:
        return f"{NOTHING}: nothing was recorded, because no process imported torch where unstuck could see it{HIDDEN}."
    far = "" if evidence.run.status is None else " until the command ended"
    seen = f"no batch, no optimizer step{far}" if evidence.recording else "no thread was met in a training"
    return f"{NOTHING}: {seen}. {UNKNOWN_LOOP}"


def _looked(evidence: Evidence) -> bool:
    """Nothing was kept from sight: what could not be read, or looked into, may hold all of it."""
    refused = any(one.role == "main" and one.refused for one in evidence.processes or ())
    return not evidence.unreadable and not refused


def _shows_progress(process: Process) -> bool:
    """Batches, steps, checkpoints, documents read, what the user tells, or ranks that have met."""
    met = process.group is not None and process.group.ended is not None and not process.group.failed
    told = bool(process.progress or process.metrics) or any(one.told for one in process.phases)
    fed = gave_batches(process) or any(one.items for one in process.sources)
    return bool(process.optimizer_steps or process.saved) or fed or told or met


def _moves(evidence: Evidence) -> bool:
    """A main process is at something that is known, or reads, writes or takes memory. Computing alone shows nothing."""
    live = [(seen, stack) for seen, stack in mains(evidence) if not wraps(evidence, seen)]
    return any(_works(evidence, seen, stack) for seen, stack in live)


def _works(evidence: Evidence, seen: Seen, stack: Stack) -> bool:
    if spins(seen, stack):
        return False
    what = {doing(stack), doing(earlier(stack))} if stack.before else {doing(stack)}
    if what - {OWN, COLLECTIVE} or (COLLECTIVE in what and not same_place(stack)):
        return True
    task = seen.main_task
    took = seen.anonymous_grown > 0 or seen.files_grown > 0 or task.page_ins > 0 or task.fetched > 0
    watched = seen.rounds is not None and bool(seen.rounds.samples)  # and it did not only spin
    return watched or took or bool(task.read or task.written) or helped(evidence, seen, stack)
