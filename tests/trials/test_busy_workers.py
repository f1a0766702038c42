"""One worker as in training: its share of a pass, from a process that has loaded nothing, until torch cleans up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from functools import partial

import pytest
import torch
from torch.multiprocessing import reductions
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from unstuck.trials.child import worker_cost
from unstuck.trials.child.usage import own
from unstuck.trials.child.worker_cost import OneOfSeveral, _until_cleaned, copied, loading

MIB = 1 << 20


class Notes(Dataset):
    """How many tensors torch has noted in the worker, as two tensors."""

    def __len__(self):
        return 150

    def __getitem__(self, _):
        return torch.zeros(4), torch.tensor(len(reductions.shared_cache))


def test_torch_notes_each_tensor_that_is_handed_over_and_cleans_up_after_as_many_batches_as_we_take_it_to(monkeypatch):
    monkeypatch.setattr(reductions, "shared_cache", reductions.SharedCache())  # a worker has its parent's notes as well
    loader = DataLoader(Notes(), num_workers=1, prefetch_factor=1)

    noted = [int(count) for _, count in loader]

    cleaned = next(at for at, count in enumerate(noted) if at and count < noted[at - 1])
    batch = (torch.zeros(1, 4), torch.zeros(1))
    assert noted[:3] == [0, 2, 4]
    assert cleaned <= _until_cleaned(batch) + 1 < cleaned + 3


class Shared(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from range(info.id, 10, info.num_workers)


def test_the_only_worker_reads_the_share_that_it_would_have_of_a_stream(tmp_path):
    def init(number):
        (tmp_path / f"called-{number}").touch()

    loader = DataLoader(Shared(), batch_size=None, num_workers=1, worker_init_fn=OneOfSeveral(2, init))

    assert list(loader) == [0, 2, 4, 6, 8]
    assert (tmp_path / "called-0").exists()


def test_workers_that_live_on_are_followed_through_several_passes():
    loader = DataLoader(list(range(6)), batch_size=2, num_workers=1, persistent_workers=True)

    with loading(loader, {"persistent_workers": True}, 30.0, lambda _: 8) as run:
        assert (run.taken, run.samples, run.ended) == (8, 16, False)
    with loading(loader, {}, 30.0, lambda _: 8) as run:
        assert (run.taken, run.samples, run.ended) == (3, 6, True)


def told(path, state, word):
    with open(path, "a") as file:
        file.write(f"{word}:{len(state)} ")
    state.append(word)


def test_every_time_it_is_asked_a_copy_is_as_its_process_was_when_it_was_made(tmp_path):
    path, state = tmp_path / "told", []

    with copied(partial(told, path, state)) as ask:
        state.extend(range(1000))
        assert ask("first")
        assert ask("second")

    assert path.read_text() == "first:0 second:0 "


def fails():
    raise LookupError("the sample is not there")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("work", [fails, dies])
def test_a_copy_tells_that_it_could_not_do_it_and_can_be_asked_again(work):
    with copied(work) as ask:
        assert (ask(), ask()) == (False, False)


def test_a_copy_that_is_not_asked_ends():
    before = set(multiprocessing.active_children())  # of other tests
    with copied(fails):
        (copy,) = set(multiprocessing.active_children()) - before

    copy.join(20)
    assert copy.exitcode == 0


def takes_long(path):
    path.write_text(str(os.getpid()))
    time.sleep(600)


def test_what_takes_too_long_is_given_up_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_cost, "COPY_PATIENCE", 1.0)
    path = tmp_path / "pid"

    with copied(partial(takes_long, path)) as ask:
        (copy,) = multiprocessing.active_children()
        assert not ask()
        assert not ask()  # nor is it tried again

    copy.join(20)
    assert copy.exitcode == 0
    assert not os.path.exists(f"/proc/{path.read_text()}")


def _takes(size, ready, ends):
    kept = bytearray(os.urandom(MIB)) * (size // MIB)
    ready.set()
    ends.wait(60)
    del kept


def at_rest(pid):
    """Once it has come to wait: until then it copies pages of what it inherited."""
    before, now = -1, own(pid)
    while now != before:
        time.sleep(0.2)
        before, now = now, own(pid)
    return now


def test_what_a_process_has_for_itself_does_not_depend_on_how_many_others_share_the_rest():
    shared = bytearray(os.urandom(MIB)) * 100
    context = multiprocessing.get_context("fork")
    ends, found = context.Event(), []
    started = []

    for size in (40 * MIB, MIB, MIB):
        ready = context.Event()
        started.append(context.Process(target=_takes, args=(size, ready, ends)))
        started[-1].start()
        ready.wait(60)
        found.append(at_rest(started[0].pid) // MIB)

    ends.set()
    for one in started:
        one.join()
    assert len(shared) == 100 * MIB
    assert all(40 <= one < 70 for one in found)
    assert max(found) - min(found) <= 2
