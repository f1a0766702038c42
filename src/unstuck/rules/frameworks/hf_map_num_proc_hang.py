"""The children of a map(num_proc=…) of datasets wait for locks or threads that only their parent has.

## What it looks at
A process that waits in `map`, `filter` or another call of Hugging Face datasets for its pool of children; the children
that are in the middle of their share: forked, asleep at a lock without a time limit, without any processor time, and
without a thread that could wake them; what lies below (OpenMP, a lock of Python's, a native library); and how far the
call had come.

## Why it happens
The pool is forked from a process that has already done something: torch has computed in parallel, a thread of a logger
or a client holds a lock, a library has started threads. `fork` copies none of these threads, only the belief that they
are there. The first parallel operation in a child, or the first time it wants that lock, it waits for ever. The bar
stays where it is, often at 0 %, and the processors are idle.

## What to do
Leave `num_proc` away, or keep the children to one thread (`torch.set_num_threads(1)` as the first line of the function,
or `OMP_NUM_THREADS=1`), or run `map` before models, clients and threads are made.

## How sure it is
Sure that these children stand: none of their threads could ever wake them. It stays silent while any child of the pool
computes, reads, writes or sleeps by its own choice (a slow function, a request to a server, a large file being written
at 99 %), and below five seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import Culprit, calls, culprit, found, state
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import (
    children,
    idles,
    in_futex,
    in_thread_pool,
    is_python_lock,
    main_stack,
    mains,
    native_top,
    nobody_else,
    other_threads,
    standing,
)
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen, Stack
from ...evidence.loader import Source
from ...wording.text import many, short
from ..rule import Level, rule

WAITS, WORKS = "iflatmap_unordered", "_write_generator_to_queue"  # of datasets, in the parent and in each child
PACKAGE = "/datasets/"
WRAPPER = "wrapper"  # of datasets, around its own methods
BAR = "tqdm_monitor"
# Seconds. Less than for other waits: nothing in such a child could end it, and a look from outside wakes it for a
# moment, so that to somebody who looks again and again it has never stood for long.
STANDS = 5.0


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for main, stack in mains(case):
        if any(_is(frame.file, frame.name, WAITS) for frame in stack.calls):
            yield from _judge(case, main, stack)


def _is(file: str, name: str, wanted: str) -> bool:
    return name == wanted and PACKAGE in file


def _judge(case: Case, main: Seen, stack: Stack) -> Iterator[Finding]:
    pool = [(one, seen) for one in children(case, main.pid) if (seen := main_stack(case, one.pid)) is not None]
    jobs = [pair for pair in pool if any(_is(frame.file, frame.name, WORKS) for frame in pair[1].calls)]
    stand = [pair for pair in jobs if _stands(case, *pair)]
    if stand and len(stand) == len(jobs):
        yield _found(case, main, stack, culprit(case, *stand[0]), len(jobs))


def _stands(case: Case, seen: Seen, stack: Stack) -> bool:
    """Nothing of it moves, and none of its threads could end its wait."""
    task = seen.main_task
    waits = seen.forked and in_futex(task) and not task.limited
    still = idles(task, seen.looked) and idles(seen, seen.looked)
    return waits and still and nobody_else(case, seen) and standing(case, seen, stack) >= STANDS


def _found(case: Case, main: Seen, stack: Stack, one: Culprit, count: int) -> Finding:
    source = _source(case, main)
    line = user_frame(stack.calls)
    at = f" at {short(place(line))}" if line is not None else ""
    return found(
        one,
        f"{_call(stack, source)}{at} stands still: {_who(one.seen, count)}{one.spot} {_for_what(case, one)}.",
        list(_seen(case, one, source)),
        _remedy(case, one),
        case,
    )


def _who(seen: Seen, count: int) -> str:
    if count == 1:
        return f"the child that is still at work (pid {seen.pid}) waits for ever"
    every = "both children" if count == 2 else f"all {count} children"
    return f"{every} of its pool wait for ever, the first (pid {seen.pid})"


def _source(case: Case, main: Seen) -> Source | None:
    process = case.process(main.node, main.pid)
    going_on = [one for one in (process.sources if process is not None else ()) if one.kind == "map"]
    return next((one for one in reversed(going_on) if one.since is not None), None)


def _call(stack: Stack, source: Source | None) -> str:
    """The function of datasets that the user called, with what is known of it."""
    own = [frame.name for frame in stack.calls if PACKAGE in frame.file and frame.name != WRAPPER]
    name = source.name.rpartition(".")[2] if source is not None else own[-1]
    told = f"num_proc={source.threads}" if source is not None and source.threads else "num_proc=…"
    return f"{name}({told})"


def _for_what(case: Case, one: Culprit) -> str:
    if in_thread_pool(one.stack) is not None:
        return (
            "in OpenMP for threads that exist only in its parent: it was forked after the parent had computed in "
            "parallel"
        )
    if is_python_lock(one.stack):
        threads = _holders(case, one.seen)
        holder = f"perhaps {threads[0]}" if threads else "which does not exist in it"
        if _awaits(one.stack):
            return f"for what another thread was to do, {holder}: threads are not forked"
        return f"for a lock that was held when it was forked, by another thread of its parent, {holder}"
    return f"for a lock inside {_library(one.stack)} that was held when it was forked"


def _awaits(stack: Stack) -> bool:
    """An event, a condition or a Future, and not a lock that somebody holds."""
    return any(frame.name == "wait" and frame.file.endswith("threading.py") for frame in stack.calls)


def _library(stack: Stack) -> str:
    named = [frame.file.rpartition("/")[2] for frame in native_top(stack)]
    return next((name for name in named if not name.startswith(("libc.", "libc-", "libpthread", "ld-"))), "a library")


def _seen(case: Case, one: Culprit, source: Source | None) -> Iterator[str]:
    yield state(one)
    yield calls(one)
    pool = in_thread_pool(one.stack)
    if pool is not None:
        yield f"below that it is in {pool.file.rpartition('/')[2]}, and the process has {_threads(one.seen)}"
    if source is not None:
        yield f"{many(source.items, 'example')} had come out of it so far, by its progress bar"
    threads = _holders(case, one.seen)
    if threads:
        yield f"its parent (pid {one.seen.parent}) has other threads: {', '.join(threads)}"


def _holders(case: Case, seen: Seen) -> list[str]:
    """The thread of a progress bar is always there, and hardly ever holds anything."""
    return sorted(other_threads(case, seen), key=lambda name: name.startswith(BAR))


def _threads(seen: Seen) -> str:
    return many(len(seen.tasks), "thread")


def _remedy(case: Case, one: Culprit) -> Remedy:
    function = one.where.function.rpartition(".")[2] if one.where is not None else "the function"
    if in_thread_pool(one.stack) is not None:
        return Remedy(
            "Leave num_proc away, with batched=True: torch then uses all processors itself. Or keep every child to one "
            f"thread: `torch.set_num_threads(1)` as the first line of {function}, or OMP_NUM_THREADS=1 in the "
            "environment."
        )
    threads = [name for name in _holders(case, one.seen) if not name.startswith(BAR)]
    later = f"before {threads[0]} is started" if threads else "before models, clients and threads are made"
    return Remedy(
        f"Leave num_proc away, or call it {later}; or make what {function} needs inside of it, once per process, "
        "instead of taking it over from the parent."
    )
