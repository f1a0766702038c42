"""The forked children of map(num_proc=…) are deadlocked at locks or threads of their parent.

## It means
The pool is forked from a process that has already done something: torch has computed in parallel, a thread of a logger
or a client holds a lock, a library has started threads. `fork` copies the state of these locks and pools, but none of
the threads. The first parallel operation in a child, or the first time it wants that lock, it waits forever. The
progress bar stays where it is, often at 0 %, and the CPU cores are idle.

## Fix
Where torch computes in the function, keep each child to one thread:

```python
# before
def embed(batch):
    return {"vector": encoder(torch.tensor(batch["pixels"])).numpy()}


# after
def embed(batch):
    torch.set_num_threads(1)  # no OpenMP threads in a forked child
    return {"vector": encoder(torch.tensor(batch["pixels"])).numpy()}
```

or do without children: torch uses all CPU cores by itself. `num_proc=1` still forks, so remove the argument.

```python
dataset = dataset.map(embed, batched=True, batch_size=256)  # no num_proc
```

or start with one thread everywhere:

```sh
OMP_NUM_THREADS=1 python train.py
```

Where it is a lock: call `map` before models, clients and threads are made, or make what the function needs inside of
it, once per process.

## Check it yourself

```sh
pgrep -P PID                      # the children of the training
py-spy dump --native --pid CHILD  # gomp_… or a lock at the top, in every child
```

If it runs through without `num_proc`, or with `OMP_NUM_THREADS=1`, it was this.

## Not this, if
- the bar stays at 99 % and the `cache-*.arrow` file grows: the result is being written; wait
- a worker of a DataLoader hangs in OpenMP: [fork-after-openmp](fork-after-openmp.md)
- a worker of a DataLoader hangs at a lock: [fork-inherited-lock](fork-inherited-lock.md)
- the call waits for a lock file of another process: [hf-filelock](hf-filelock.md)

## How sure
Judged from the process that waits in `map`, `filter` or another call of Hugging Face datasets for its pool, and from
the children that are in the middle of their share: forked, asleep at a lock without a timeout, without any CPU time,
and without a thread that could wake them. Certain that these children are deadlocked. Silent while any child of the
pool computes, reads, writes or sleeps by its own choice (a slow function, a request to a server, a large file being
written at 99 %), and below five seconds.

## Seen in
- https://github.com/huggingface/datasets/issues/5786: `map` with a PyTorch model and several processes hangs
- https://github.com/huggingface/datasets/issues/7756: `map(num_proc=N)` hangs when it runs during an import
- https://github.com/huggingface/trl/issues/1964: `dataset_num_proc=2` stops DPOTrainer at `Map`
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
from ...analysis.torch_errors import with_setting
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.live import Seen, Stack
from ...evidence.loader import Source
from ...wording.text import line, many
from ..rule import Level, rule

TEXTS = ("Map (num_proc=", "Filter (num_proc=")
WAITS, WORKS = "iflatmap_unordered", "_write_generator_to_queue"  # of datasets, in the parent and in each child
PACKAGE = "/datasets/"
WRAPPER = "wrapper"  # of datasets, around its own methods
BAR = "tqdm_monitor"
# Seconds. Less than for other waits: nothing in such a child could end it, and each look from outside wakes it for a
# moment, so it never seems to have been blocked for long.
BLOCKED = 5.0


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
    blocked = [pair for pair in jobs if _is_blocked(case, *pair)]
    if blocked and len(blocked) == len(jobs):
        yield _found(case, main, stack, culprit(case, *blocked[0]), len(jobs))


def _is_blocked(case: Case, seen: Seen, stack: Stack) -> bool:
    """Nothing of it moves, and none of its threads could end its wait."""
    task = seen.main_task
    waits = seen.forked and in_futex(task) and not task.limited
    still = idles(task, seen.looked) and idles(seen, seen.looked)
    return waits and still and nobody_else(case, seen) and standing(case, seen, stack) >= BLOCKED


def _found(case: Case, main: Seen, stack: Stack, one: Culprit, count: int) -> Finding:
    source = _source(case, main)
    name = _name(stack, source)
    threads = f"num_proc={source.threads}" if source is not None and source.threads else "num_proc=…"
    children = "its last child waits" if count == 1 else f"{'both' if count == 2 else f'all {count}'} children wait"
    remedy, *others = _remedies(case, one, name)
    return found(
        one,
        f"{name}({threads}) is deadlocked: {children} {_for_what(one)}.",
        list(_seen(case, stack, one, source)),
        remedy,
        case,
        alternatives=others,
    )


def _source(case: Case, main: Seen) -> Source | None:
    process = case.process(main.node, main.pid)
    going_on = [one for one in (process.sources if process is not None else ()) if one.kind == "map"]
    return next((one for one in reversed(going_on) if one.since is not None), None)


def _name(stack: Stack, source: Source | None) -> str:
    """The function of datasets that the user called."""
    own = [frame.name for frame in stack.calls if PACKAGE in frame.file and frame.name != WRAPPER]
    return source.name.rpartition(".")[2] if source is not None else own[-1]


def _for_what(one: Culprit) -> str:
    if in_thread_pool(one.stack) is not None:
        return "in OpenMP for threads that fork did not copy"
    if is_python_lock(one.stack):
        if _awaits(one.stack):
            return "for a thread that fork did not copy"
        return "for a lock that another thread held at the fork"
    return f"for a lock inside {_library(one.stack)} that was held at the fork"


def _awaits(stack: Stack) -> bool:
    """An event, a condition or a Future, and not a lock that is held."""
    return any(frame.name == "wait" and frame.file.endswith("threading.py") for frame in stack.calls)


def _library(stack: Stack) -> str:
    named = [frame.file.rpartition("/")[2] for frame in native_top(stack)]
    return next((name for name in named if not name.startswith(("libc.", "libc-", "libpthread", "ld-"))), "a library")


def _seen(case: Case, stack: Stack, one: Culprit, source: Source | None) -> Iterator[str]:
    yield state(one)
    yield calls(one)
    pool = in_thread_pool(one.stack)
    if pool is not None:
        yield f"below that: {pool.file.rpartition('/')[2]}, in a process with {many(len(one.seen.tasks), 'thread')}"
    called = place(user_frame(stack.calls))
    if called is not None:
        yield f"called at {line(called)}"
    if source is not None:
        yield f"{many(source.items, 'example')} done so far, by the progress bar"
    threads = _holders(case, one.seen)
    if threads:
        yield f"other threads of the parent (pid {one.seen.parent}): {', '.join(threads)}"


def _holders(case: Case, seen: Seen) -> list[str]:
    """The thread of a progress bar is always there, and hardly ever holds anything."""
    return sorted(other_threads(case, seen), key=lambda name: name.startswith(BAR))


def _remedies(case: Case, one: Culprit, name: str) -> list[Remedy]:
    function = one.where.function.rpartition(".")[2] if one.where is not None else "the function"
    if in_thread_pool(one.stack) is not None:
        return [
            Remedy(
                f"Keep each child to one thread, as the first line of {function}:", code=["torch.set_num_threads(1)"]
            ),
            Remedy(
                f"Remove num_proc, and pass batched=True if {function} can take batches: torch then uses all CPU cores."
            ),
            Remedy("Start the training with one OpenMP thread:", commands=[with_setting(case, "OMP_NUM_THREADS=1")]),
        ]
    threads = [thread for thread in _holders(case, one.seen) if not thread.startswith(BAR)]
    later = f"before {threads[0]} is started" if threads else "before models, clients and threads are made"
    return [
        Remedy(f"Call {name}() {later}: fork copies held locks, but not the threads that would release them."),
        Remedy(f"Make what {function} needs inside of it, once per process, instead of inheriting it."),
        Remedy("Remove num_proc."),
    ]
