"""Several readers: what they are given is read once, whoever dies meanwhile."""

from __future__ import annotations

import os
import signal
import tarfile
import time
from pathlib import Path

import pytest
import shards

from unstuck.checking.notes import Wish
from unstuck.checking.workers import Task, Workers

pytestmark = pytest.mark.scenario

LONG = 1 << 30  # bytes that are nowhere on the disk: reading them takes some tenths of a second


@pytest.fixture
def long_shard(tmp_path) -> Path:
    path = tmp_path / "long.tar"
    info = tarfile.TarInfo("0.bin")
    info.size = LONG
    with open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(512 + LONG + 1024)
    return path


def small(folder: Path, count: int) -> list[str]:
    return [str(shards.write(folder / f"s-{number}.tar", shards.members(3, number))) for number in range(count)]


def read(workers: Workers, tasks: list[Task], moved=lambda _: None):
    return {one.file.path: one.file for one in workers.read(tasks, moved)}


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def test_every_file_is_read_once_by_several(tmp_path):
    paths = small(tmp_path, 9)
    with Workers(3) as workers:
        files = [one.file for one in workers.read([Task([path], Wish()) for path in paths], lambda _: None)]

    assert sorted(one.path for one in files) == paths
    assert {one.samples for one in files} == {3}


def test_bytes_are_told_while_a_file_is_read(long_shard):
    told = []
    with Workers(1) as workers:
        read(workers, [Task([str(long_shard)], Wish())], told.append)

    assert sum(told) == long_shard.stat().st_size
    assert len([one for one in told if one]) > 1


def test_a_reader_that_is_killed_once_loses_nothing(tmp_path, long_shard):
    paths = [*small(tmp_path, 2), str(long_shard)]
    killed = []

    def moved(_: int) -> None:
        if not killed and workers._workers[0].left[0] == str(long_shard):
            killed.append(workers._workers[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    with Workers(1) as workers:
        files = read(workers, [Task(paths, Wish())], moved)

    assert killed
    assert gone(killed[0])
    assert sorted(files) == sorted(paths)
    assert not any(one.faults for one in files.values())


def test_a_file_that_ends_every_reader_is_said_to_and_the_others_are_read(tmp_path, long_shard):
    paths = [str(long_shard), *small(tmp_path, 2)]

    def moved(_: int) -> None:
        for one in workers._workers:
            if one.left and one.left[0] == str(long_shard):
                os.kill(one.process.pid, signal.SIGKILL)

    with Workers(1) as workers:
        files = read(workers, [Task(paths, Wish())], moved)

    (fault,) = files[str(long_shard)].faults
    assert fault.kind == "reader-died"
    assert "SIGKILL" in fault.what
    assert [one.samples for path, one in files.items() if path != str(long_shard)] == [3, 3]


def test_a_mistake_of_ours_is_no_fault_of_a_file(tmp_path):
    with Workers(1) as workers, pytest.raises(RuntimeError, match="a reader failed"):
        read(workers, [Task(small(tmp_path, 1), Wish(algorithm="no-such-digest"))])


def test_leaving_it_in_the_middle_ends_its_processes(long_shard):
    seen = []

    def moved(_: int) -> None:
        seen.extend(one.process.pid for one in workers._workers)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Workers(1) as workers:
        read(workers, [Task([str(long_shard)], Wish())], moved)

    assert seen
    assert all(map(gone, seen))


def test_it_stops_when_its_time_is_over(long_shard):
    with Workers(1, until=time.monotonic()) as workers:
        assert read(workers, [Task([str(long_shard)], Wish())]) == {}
