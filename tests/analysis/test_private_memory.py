"""Only what no other process shares is called private; what a forked worker copies is told from what it allocates."""

from __future__ import annotations

import mmap
import os
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from unstuck.analysis.memory import copied, held
from unstuck.evidence import Host, Memory, Sample
from unstuck.evidence.live import Seen
from unstuck.evidence.process import Process
from unstuck.inside.loading.readers import _path
from unstuck.probes import machine

MIB = 1 << 20
WORKER = Process(node="n", pid=2, parent=1, role="worker", opened=1.0, threads_at_fork=1)


def seen(*looks: tuple[float, int, int | None]) -> Host:
    """Of the worker: at, anonymous, own. Its parent held 400 MiB when it was forked."""
    first = Sample(at=0.5, processes=[Memory(pid=1, anonymous=400 * MIB)])
    later = [
        Sample(at=at, processes=[Memory(pid=2, anonymous=held * MIB, own=own and own * MIB)]) for at, held, own in looks
    ]
    return Host(node="n", samples=[first, *later])


def test_a_forked_child_holds_what_it_shares_but_little_of_it_is_private():
    shared = mmap.mmap(-1, 300 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, len(shared), mmap.PAGESIZE):
        shared[page] = 1
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.read(reading, 1)
        os._exit(0)
    try:
        look = machine.sample(os.getpid(), [child], Path("/"), 0.0, apart=[child])
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
    (memory,) = look.processes

    assert memory.anonymous > 300 * MIB
    assert memory.own < 100 * MIB


def test_what_was_saved_as_private_is_read_as_anonymous():
    memory = msgspec.json.decode(b'{"pid": 1, "private": 5}', type=Memory)
    process = msgspec.json.decode(
        b'{"node": "n", "pid": 1, "parent": 0, "role": "main", "private": 5, "private_grown": -3}', type=Seen
    )

    assert (memory.anonymous, process.anonymous, process.anonymous_grown) == (5, 5, -3)
    assert b"private" not in msgspec.json.encode([memory, process])


def test_nothing_is_called_private_that_was_not_measured():
    assert held(seen((2.0, 460, None)), WORKER) == "460 MiB when last seen, with what it shared with the main process"
    assert held(seen((2.0, 460, 60)), WORKER) == "460 MiB when last seen; 60 MiB were private to it at 2 s"
    assert "private" not in held(seen((2.0, 460, 60), (20.0, 800, None)), WORKER)
    assert held(seen(), WORKER) is None


def test_a_victim_that_is_already_emptied_is_told_as_it_was():
    assert held(seen((2.0, 460, None), (2.5, 0, None)), WORKER).startswith("460 MiB")


def test_what_a_worker_allocates_itself_is_no_copy():
    looks = seen((2.0, 500, 110), (4.0, 500, 150), (6.0, 600, 270))

    assert [value // MIB for _, value in copied(looks, WORKER)] == [10, 50, 70]


@pytest.mark.parametrize(
    ("given", "expected"), [("a/b.npy", "a/b.npy"), (PurePosixPath("a/b.npy"), "a/b.npy"), (3, "")]
)
def test_a_reader_is_known_by_the_path_it_was_given(given, expected):
    assert _path(given) == expected


def test_a_path_of_the_users_own_kind_is_not_asked():
    class Own:
        def __fspath__(self):
            raise AssertionError

        __str__ = __fspath__

    assert _path(Own()) == ""
