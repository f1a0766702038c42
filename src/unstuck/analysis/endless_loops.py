"""Whether a main thread that computes goes round in circles: the same few lines and files, and nothing is kept."""

from __future__ import annotations

from ..evidence.basics import Place
from ..evidence.live import Frame, Rounds, Sampled, Seen, Stack
from .case import Case, once
from .gil import keeps_gil
from .stacks import DRAWING, FETCHING, GPU, OWN, SCANNING, doing, fetch_of, place, user_frame
from .standstill import (
    LONG,
    computes,
    earlier,
    last_handed,
    main_stack,
    mains,
    recorded,
    same_place,
    standing,
    stays,
    suspects,
)

FIRST = 3.0  # seconds: 150 samples, and a loop over files that are read in a second comes round
SETTLED = LONG  # seconds that tell who begins the same files again and again
A_MINUTE = 60.0  # seconds without any reading: longer than most computations that keep nothing
KEPT = 1 << 14  # bytes: an interpreter's own ups and downs
KEPT_A_SECOND = 1 << 12  # bytes: what other threads may take; whatever is kept of what is read grows by more
TIMES = 3  # begun again: who looks at a file twice has a reason, who does so all the time has none
IN_ALL = 10  # the same of all files together
OVER = 5  # times the size of all files that it had open: so much cannot be read of them in one go
GROWING = 1 << 18  # bytes in the second of the look itself: an interpreter takes less, a buffer that fills more
ALIKE = (OWN, SCANNING, FETCHING, DRAWING)  # what a loop before a batch is doing, by its calls
NAMELESS = ("<genexpr>", "<listcomp>", "<lambda>", "<setcomp>", "<dictcomp>")
FEW = 20  # lines of the user's own; a program that does various things meets more


@once
def in_question(case: Case) -> list[Seen]:
    """Main processes, and workers that one waits for, whose main thread computes and keeps nothing."""
    found = mains(case)
    found += [(worker, stack) for _, worker, stack in suspects(case) if not _hands_on(case, worker)]
    return [seen for seen, stack in found if _gets_nowhere(case, seen, stack)]


def _gets_nowhere(case: Case, seen: Seen, stack: Stack) -> bool:
    if recorded(case, seen) is None and doing(stack) == GPU and same_place(stack):
        return True
    if not computes(seen.main_task, seen.looked) or seen.main_task.written or seen.anonymous_grown > GROWING:
        return False
    alike = doing(stack) in ALIKE and doing(earlier(stack)) in ALIKE
    if recorded(case, seen) is None:
        return alike  # nothing else tells whether it is a training that makes progress
    return alike and standing(case, seen, stack) >= LONG


def is_awaited(stack: Stack) -> bool:
    """Something waits for what it should give: a loop over a generator, or a DataLoader. Else it may just compute."""
    return fetch_of(stack) is not None or doing(stack) == DRAWING or any(one.yields for one in stack.calls)


def longer(case: Case, seen: Seen, rounds: Rounds) -> float:
    """Seconds for which one has to be watched on, after it was for FIRST; 0: what is known is enough, or tells nothing.

    A recording tells for how long there was no progress. Without one, only watching can. That a loop which reads
    nothing keeps nothing either is seen better over some time.
    """
    stack = main_stack(case, seen.pid)
    if stack is not None and doing(stack) == GPU:
        return SETTLED if stays(rounds) else 0.0
    if recorded(case, seen) is None or stack is None:
        if stack is not None and not is_awaited(stack) and not keeps_gil(stack):
            return 0.0  # no cause could be named: it may just compute
        return SETTLED if goes_round(rounds) else A_MINUTE if only_computes(rounds) else 0.0
    long_ago = standing(case, seen, stack) >= A_MINUTE
    return SETTLED if long_ago and only_computes(rounds) and not goes_round(rounds) else 0.0


def _hands_on(case: Case, worker: Seen) -> bool:
    handed = last_handed(case, worker)
    return handed is not None and handed < LONG


def keeps_nothing(rounds: Rounds) -> bool:
    """It did nothing but what a loop of the user's own does, wrote nothing, and its memory stayed as it was."""
    alike = bool(rounds.samples) and all(doing(one.stack) in ALIKE for one in rounds.samples)
    still = not rounds.written and rounds.grown <= KEPT + KEPT_A_SECOND * rounds.seconds
    return alike and still and 0 < len(lines(rounds)) <= FEW


def only_computes(rounds: Rounds) -> bool:
    return keeps_nothing(rounds) and not rounds.read


def goes_round(rounds: Rounds) -> bool:
    """The same files are begun again and again, none is new, none is read further than before."""
    again = begun_again(rounds)
    if not keeps_nothing(rounds) or any(path not in again for path in rounds.fresh):
        return False
    return sum(again.values()) >= IN_ALL or bool(rounds.size and rounds.read >= OVER * rounds.size)


def begun_again(rounds: Rounds) -> dict[str, int]:
    return {path: times for path, times in rounds.files.items() if times >= TIMES}


def lines(rounds: Rounds) -> dict[Place, int]:
    """Lines of the user's own that the main thread was met at, the innermost of each sample, most often first."""
    found: dict[Place, int] = {}
    for one in _whole(rounds):
        where = place(user_frame(one.stack.calls))
        if where is not None:
            found[where] = found.get(where, 0) + one.count
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def around(rounds: Rounds, stack: Stack) -> Frame | None:
    """The innermost function of the user's own that it was in all the time, in a `while` if any was: the loop."""
    known = {(one.file, one.function): one for one in (*stack.calls, *earlier(stack).calls)}
    stacks = [one.stack.calls[::-1] for one in _whole(rounds)]
    found: list[Frame] = []
    for frames in zip(*stacks, strict=False):
        first = frames[0]
        if len({(one.file, one.function) for one in frames}) > 1:
            break
        if user_frame([first]) is not None and not first.name.startswith(NAMELESS):
            found.append(known.get((first.file, first.function), first))
    return next((one for one in reversed(found) if one.repeats), found[-1] if found else None)


def _whole(rounds: Rounds) -> list[Sampled]:
    """A stack that changes while it is read may be cut off: those that begin where most do are whole."""
    begins: dict[tuple[str, str], int] = {}
    for one in rounds.samples:
        if one.frames:
            begins[_first(one)] = begins.get(_first(one), 0) + one.count
    usual = max(begins, key=lambda first: begins[first], default=None)
    return [one for one in rounds.samples if one.frames and _first(one) == usual]


def _first(one: Sampled) -> tuple[str, str]:
    return one.frames[-1].file, one.frames[-1].function
