"""Exceptions of the user's: written down with what they were about, and handed on as if we had not been there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest
from running import Run, frames_of_ours

from unstuck.evidence.process import Failure
from unstuck.inside.format import Kind

Recorded = Callable[..., Run]
CLEAN = pytest.mark.skipif(sys.version_info < (3, 11), reason="before 3.11 a re-raise adds the raising frame again")

BEGIN = """
import os, sys, traceback, threading
import torch, unstuck
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Numbers:
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return index

class Bad(Numbers):
    def __getitem__(self, index):
        path, other = __file__.replace("train.py", "shard-0007.tar"), "/no/such/shard.tar"
        if index == 5:
            open(path, "w").close()
            raise KeyError("caption")
        return index

def collate(samples):
    if 5 in samples:
        raise ValueError("sizes differ")
    return samples
"""


def failure_of(run: Run, worker: bool = False) -> Failure:
    process = (run.workers[0] if worker else run.main).process()
    assert process.failure is not None
    return process.failure


@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_in_a_sample_is_kept_with_index_frames_and_file(recorded: Recorded, workers: int) -> None:
    # given a sample that raises
    run = recorded(BEGIN + f"for batch in DataLoader(Bad(), batch_size=4, num_workers={workers}): pass")
    # then the program fails as ever, and whoever met it first wrote down what it was about
    assert run.code == 1
    assert "KeyError" in run.err
    failure = failure_of(run, worker=bool(workers))
    assert (failure.type, failure.message) == ("KeyError", "'caption'")
    assert (failure.index, failure.batch, failure.collating) == (5, 1, False)
    assert failure.indices == [4, 5, 6, 7]
    assert failure.frames[-1].function == "__getitem__"
    assert failure.frames[-1].file.endswith("train.py")
    assert [os.path.basename(path) for path in failure.paths] == ["shard-0007.tar"]
    assert failure_of(run).how == "uncaught"


def test_an_exception_in_collate_is_kept_as_such(recorded: Recorded) -> None:
    run = recorded(BEGIN + "for batch in DataLoader(Numbers(), batch_size=4, num_workers=1, collate_fn=collate): pass")
    failure = failure_of(run, worker=True)
    assert (failure.type, failure.collating, failure.indices) == ("ValueError", True, [4, 5, 6, 7])


def test_an_exception_in_the_last_short_collate_of_a_stream_is_kept_as_such(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Stream(IterableDataset):
    def __iter__(self):
        return iter([1, 2, 3, 4, 5])

for batch in DataLoader(Stream(), batch_size=3, collate_fn=collate): pass
"""
    )
    failure = failure_of(run)
    assert (failure.type, failure.collating, failure.position) == ("ValueError", True, 5)


def test_an_exception_in_a_stream_is_kept_with_its_position(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Stream(IterableDataset):
    def __iter__(self):
        yield from range(4)
        raise OSError(5, "Input/output error", "/data/a.tar")

for batch in DataLoader(Stream(), batch_size=3, num_workers=1): pass
"""
    )
    failure = failure_of(run, worker=True)
    assert (failure.type, failure.collating, failure.position) == ("OSError", False, 4)
    assert failure.paths[0] == "/data/a.tar"


def test_an_exception_in_the_loop_is_kept_with_the_stage_it_rose_in(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
for batch in DataLoader(Numbers(), batch_size=4):
    with unstuck.stage("decode", item="/data/b.jpg"):
        raise RuntimeError("no decoder")
"""
    )
    failure = failure_of(run)
    assert (failure.type, failure.stage, failure.item) == ("RuntimeError", "decode", "/data/b.jpg")
    assert failure.index is None


def test_facts_of_a_sample_that_was_skipped_are_not_pinned_on_a_later_exception(recorded: Recorded) -> None:
    # given failures that the user skips, and then another of the same type, often at the same address
    run = recorded(
        BEGIN
        + """
class Skipping(Numbers):
    def __getitem__(self, index):
        raise KeyError(index)

for turn in range(50):
    try:
        next(iter(DataLoader(Skipping(), batch_size=2)))
    except KeyError:
        pass
{}["learning_rate"]
"""
    )
    failure = failure_of(run)
    assert failure.message == "'learning_rate'"
    assert (failure.index, failure.batch, failure.indices) == (None, None, [])


def test_the_first_and_the_newest_exceptions_of_a_worker_are_kept(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
class Worse(Numbers):
    def __getitem__(self, index):
        raise KeyError(f"key {index}")

iterator = iter(DataLoader(Worse(), batch_size=1, num_workers=1))
for turn in range(6):
    try:
        next(iterator)
    except KeyError:
        pass
"""
    ).succeeded()
    messages = [one.message for one in run.workers[0].process().failures]
    assert messages[0] == "'key 0'"
    assert messages[-1] == "'key 7'"  # two batches are on their way beyond the last that was asked for


def test_a_failure_too_long_to_be_kept_whole_is_kept_without_its_indices(recorded: Recorded) -> None:
    # given a batch of names as long as paths can be
    run = recorded(
        BEGIN
        + """
names = [f"/data/{number}/" + "d" * 380 for number in range(64)]

class Named:
    def __getitem__(self, index):
        raise OSError("unreadable")

for batch in DataLoader(Named(), batch_sampler=[names], num_workers=1): pass
"""
    )
    failure = failure_of(run, worker=True)
    assert failure.message == "unreadable"
    assert failure.index is not None


def test_an_exception_in_a_thread_is_kept_and_printed_once(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
thread = threading.Thread(target=lambda: {}["gone"])
thread.start()
thread.join()
"""
    )
    assert run.code == 0
    assert run.err.count("KeyError: 'gone'") == 1
    assert failure_of(run).how == "thread"


def test_an_exception_of_a_process_of_the_users_own_is_kept(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
import multiprocessing

def work():
    raise ConnectionError("no master")

child = multiprocessing.Process(target=work)
child.start()
child.join()
print(child.pid)
"""
    )
    (failed,) = [one for one in run.processes if one.pid == int(run.out)]
    assert failed.failure is not None
    assert failed.failure.message == "no master"


SEEN = """
def show():
    for line in traceback.format_exc().splitlines():
        print(line)

class BadLength(Numbers):
    def __len__(self):
        raise TypeError("no length")

class BadStart(IterableDataset):
    def __iter__(self):
        raise ValueError("no start")

for attempt in (
    lambda: next(iter(DataLoader(Bad(), batch_size=6))),
    lambda: next(iter(DataLoader(Bad(), batch_size=6, num_workers=1))),
    lambda: next(iter(DataLoader(Numbers(), batch_size=6, collate_fn=collate))),
    lambda: iter(DataLoader(BadStart())),
    lambda: len(DataLoader(BadLength())),
    lambda: DataLoader(Numbers(), batch_size=-1),
    lambda: next(iter(DataLoader([]))),
):
    try:
        attempt()
    except Exception:
        show()
    else:
        print("nothing raised")
"""


@CLEAN
def test_no_frame_of_ours_is_in_a_traceback_that_the_user_sees(recorded: Recorded) -> None:
    # given exceptions through everything we wrap
    run = recorded(BEGIN + SEEN)
    # then each came, and none shows us
    assert run.code == 0
    assert run.out.count("Traceback") >= 7
    assert "nothing raised" not in run.out
    assert frames_of_ours(run.out + run.err) == []
    assert run.main.events(Kind.WAIT) == []
    assert run.main.process().adapters_failed == []


@CLEAN
@pytest.mark.parametrize("workers", [0, 1])
def test_the_traceback_of_an_uncaught_exception_is_the_users_alone(recorded: Recorded, workers: int) -> None:
    run = recorded(BEGIN + f"for batch in DataLoader(Bad(), batch_size=4, num_workers={workers}): pass")
    assert "KeyError" in run.err
    assert frames_of_ours(run.err) == []


def test_a_program_that_puts_its_own_hook_in_place_is_still_known_to_have_crashed(recorded: Recorded) -> None:
    run = recorded("""
        import sys
        import torch
        sys.excepthook = lambda *_: print("mine")
        folder = "/runs/experiment"
        sys.last_value = None
        try:
            raise KeyError("lost")
        except KeyError as error:
            sys.last_value = error  # as Python leaves it, before it calls the hook
    """)
    (failure,) = run.main.process().failures
    assert (failure.how, failure.type, failure.paths) == ("uncaught", "KeyError", [])


def test_an_exception_of_a_process_that_imports_torch_only_in_its_function_is_kept(started: Recorded) -> None:
    text = """
    import multiprocessing

    def work():
        import torch
        raise ValueError("on purpose")

    if __name__ == "__main__":
        child = multiprocessing.get_context("spawn").Process(target=work)
        child.start()
        child.join()
    """
    run = started(text)

    (child,) = run.processes
    assert [(one.type, one.how) for one in child.failures] == [("ValueError", "uncaught")]
    assert "/inside/" not in run.err
