"""The machine as the training sees it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stuck import wait_for
from unstuck.demo.surroundings import Unavailable, surroundings
from unstuck.probes import cgroups, kernel, machine
from unstuck.watching.handles import Pidfd


def test_a_sample_tells_this_process_apart_by_kinds_of_memory(tmp_path):
    sample = machine.sample(os.getpid(), [os.getpid()], tmp_path, 1.5)

    (mine,) = sample.processes
    assert mine.anonymous > 1 << 20
    assert mine.files > 1 << 20
    assert mine.descriptors >= 3
    assert 0 < sample.available <= sample.total
    assert sample.shm_free <= sample.shm_size
    assert sample.oom_kills["machine"] >= 0


def test_a_process_that_is_gone_is_left_out(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert machine.sample(os.getpid(), [gone.pid], tmp_path, 0.0).processes == []


def in_its_group(pid):
    """Its memory, once it has joined the cgroup that was made for it."""
    use = cgroups.memory(pid)
    return use if use is not None and use.limit == 64 << 20 else None


def test_the_limit_of_a_memory_cgroup_is_read_through_a_process_in_it():
    try:
        with surroundings({"memory": "64M"}) as around:
            inside = subprocess.Popen([*around.outside, "sleep", "600"])
            use = wait_for(lambda: in_its_group(inside.pid))
            inside.kill()
            inside.wait()
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert use.limit == 64 << 20
    assert 0 <= use.used < use.limit
    assert set(use.oom_kills.values()) >= {0}


def test_the_files_of_cgroup_v2_are_read(tmp_path):
    """As the kernel documents them; this machine may have v1 only."""
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 100\nfile 500000\ninactive_file 300000\nactive_file 100000\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n")

    assert cgroups._limit(tmp_path) == 1048576
    assert cgroups._oom_kills(tmp_path) == 2
    assert cgroups._page_cache(tmp_path) == 400000


@pytest.mark.parametrize("text", ["max", "9223372036854771712"])
def test_no_limit_is_no_limit(tmp_path, text):
    (tmp_path / ("memory.max" if text == "max" else "memory.limit_in_bytes")).write_text(text)

    assert cgroups._limit(tmp_path) is None


def test_processors_are_those_this_process_may_use():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert cgroups.cpus(os.getpid()) == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("kill -KILL $$", -9)])
def test_the_kernel_tells_how_a_process_that_is_not_our_child_ended(command, status):
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if release < (6, 15):
        pytest.skip("needs Linux 6.15")
    parent = subprocess.Popen(
        ["sh", "-c", f"exec 3<&0; sh -c 'read go <&3; {command}' & echo $!; wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    handle = Pidfd(int(parent.stdout.readline()))

    parent.communicate("go\n")

    assert handle.ended()
    assert handle.status() == status
    handle.close()


def test_small_shared_memory_is_made_for_the_training_alone(tmp_path):
    try:
        with surroundings({"shm": "8M"}) as around:
            seen = subprocess.run(
                [*around.outside, "df", "--output=size", "-B1", "/dev/shm"], capture_output=True, text=True, check=True
            )
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert int(seen.stdout.split()[1]) == 8 << 20
    assert Path("/dev/shm").stat().st_dev == os.stat("/dev/shm").st_dev


def test_the_counters_of_a_cgroup_are_read_on_after_the_process_in_it_has_ended(tmp_path):
    try:
        with surroundings({"memory": "64M"}) as around:
            inside = subprocess.Popen([*around.outside, "sleep", "600"])
            wait_for(lambda: in_its_group(inside.pid))
            before = machine.sample(inside.pid, [], tmp_path, 0.0)
            inside.kill()
            wait_for(lambda: kernel.stat(inside.pid).state == "Z")  # now it is in no cgroup of its own
            after = machine.sample(inside.pid, [], tmp_path, 0.5, machine.groups_in(before))
            inside.wait()
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert len(machine.groups_in(before)) > 0
    assert machine.groups_in(after) == machine.groups_in(before)
