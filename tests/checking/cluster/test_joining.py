"""Clusters that cannot be used, clusters of our own, and that nothing is left of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from given_files import large, read_by, shard, tasks
from ray_heads import eventually, free_port, mentions

from stuck import needs_root
from unstuck.checking.cluster import Cluster
from unstuck.errors import UserError

pytestmark = pytest.mark.scenario


@pytest.mark.parametrize("address", ["spark", "ray:/head", "ray://head:port", "http://head:10001"])
def test_what_names_no_cluster_is_refused(address):
    with pytest.raises(UserError, match=re.escape(f"--on {address} names no cluster; write ray, ray://auto")):
        Cluster(address)


def test_without_ray_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(UserError, match=r"pip install 'unstuck\[ray\]'"):
        Cluster("ray").__enter__()


def test_a_port_that_nobody_listens_at_is_refused_without_asking_ray(monkeypatch):
    monkeypatch.setenv("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "3600")  # it would try for that long
    monkeypatch.setenv("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "3600")
    address = f"ray://127.0.0.1:{free_port()}"

    with pytest.raises(UserError, match=f"no Ray cluster answers at {address}: Connection refused"):
        Cluster(address).__enter__()


@pytest.mark.calm
def test_a_port_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setenv("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "1")  # Ray's own patience, 30 s in all
    monkeypatch.setenv("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "1")

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"ray://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            UserError, match=f"the Ray cluster at {address} cannot be joined: ray client connection timeout"
        ):
            Cluster(address).__enter__()


@pytest.mark.calm
def test_a_cluster_that_is_no_longer_there_is_refused(monkeypatch):
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("RAY_ADDRESS", address)

    with pytest.raises(UserError, match=f"no Ray cluster answers at {address}: Connection refused"):
        Cluster("ray").__enter__()


@pytest.mark.calm
def test_a_cluster_without_a_free_processor_is_refused_and_whoever_has_them_goes_on(tmp_path, head, storage):
    storage.slow = {Path(large(tmp_path / f"{number}.tar")).name for number in range(2)}
    given, reads = tasks([f"{storage.address}/{name}" for name in sorted(storage.slow)], together=1), []
    first = threading.Thread(target=lambda: reads.extend(read_by(Cluster("ray"), given)[0]))
    first.start()
    for _ in given:
        assert storage.waiting.acquire(timeout=120)

    with pytest.raises(UserError, match="the Ray cluster has 2 CPUs and none was free for 3 s"):
        Cluster("ray", patience=3).__enter__()

    storage.go.set()
    first.join(600)
    assert [one.file.samples for one in reads] == [12, 12]


PROGRAM = """
import sys
from unstuck.checking.cluster import Cluster
from unstuck.checking.workers import Task
from unstuck.checking.notes import Wish

with Cluster(sys.argv[1]) as cluster:
    for read in cluster.read([Task([path], Wish()) for path in sys.argv[2:]], lambda _: None):
        print(read.file.path, read.file.samples)
"""


def started(script, folder, *words, before=(), **env):
    """The program, with a folder of its own for all that is temporary."""
    return subprocess.Popen(
        [*before, sys.executable, script(PROGRAM), *words],
        env={**os.environ, "TMPDIR": folder, "HOME": folder, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def own_folder():
    folder = tempfile.mkdtemp(prefix="own-", dir="/tmp")
    yield folder
    shutil.rmtree(folder)


def nothing_left_in(folder):
    assert os.listdir(folder) == []
    eventually(lambda: not any(mentions(one, folder) for one in psutil.process_iter()), 10)


@pytest.mark.calm
def test_a_cluster_of_our_own_does_its_work_in_silence_and_leaves_nothing(tmp_path, script, own_folder):
    path = shard(tmp_path / "one.tar")

    out, err = started(script, own_folder, "ray://local", path).communicate(timeout=120)

    assert (out, err) == (f"{path} 20\n", "")
    nothing_left_in(own_folder)


@pytest.mark.calm
def test_where_no_cluster_runs_one_is_started(tmp_path, script, own_folder):
    """In a namespace of its own: on this machine another test may have one."""
    needs_root("unshare")
    path = shard(tmp_path / "one.tar")
    unseen = ("unshare", "--pid", "--fork", "--mount-proc")

    out, err = started(script, own_folder, "ray", path, before=unseen, RAY_TMPDIR=own_folder).communicate(timeout=120)

    assert (out, err) == (f"{path} 20\n", "")
    nothing_left_in(own_folder)


def test_the_command_prints_its_report_and_nothing_of_ray(tmp_path, unstuck):
    cut = Path(shard(tmp_path / "cut.tar"))
    cut.write_bytes(cut.read_bytes()[:30_000])

    ended = unstuck("check", "cut.tar", "--on", "ray://local", "--json")

    assert ended.returncode == 1
    assert [line for line in ended.stderr.splitlines() if not line.startswith("unstuck: checking")] == []
    assert json.loads(ended.stdout)["findings"][0]["subject"] == {"kind": "file", "name": "cut.tar"}


def test_ctrl_c_ends_a_cluster_of_our_own(tmp_path, script, own_folder, storage):
    storage.slow = {Path(large(tmp_path / "slow.tar")).name}
    process = started(script, own_folder, "ray://local", f"{storage.address}/slow.tar")
    assert storage.waiting.acquire(timeout=120)

    os.killpg(process.pid, signal.SIGINT)

    assert process.communicate(timeout=120)[1].endswith("KeyboardInterrupt\n")
    nothing_left_in(own_folder)


@pytest.mark.calm
def test_ctrl_c_while_a_cluster_starts_leaves_nothing(tmp_path, script, own_folder):
    process = started(script, own_folder, "ray://local", "none.tar")
    eventually(lambda: any(one.name() == "raylet" for one in psutil.process_iter() if mentions(one, own_folder)), 600)

    os.killpg(process.pid, signal.SIGINT)

    assert process.communicate(timeout=120)[1].endswith("KeyboardInterrupt\n")
    nothing_left_in(own_folder)


@pytest.mark.calm
def test_a_check_that_is_killed_takes_its_cluster_along(tmp_path, script, own_folder, storage):
    storage.slow = {Path(large(tmp_path / "slow.tar")).name}
    process = started(script, own_folder, "ray://local", f"{storage.address}/slow.tar")
    assert storage.waiting.acquire(timeout=120)

    process.kill()

    process.communicate(timeout=120)
    eventually(lambda: not os.listdir(own_folder), 20)
    nothing_left_in(own_folder)


@pytest.mark.calm
def test_ctrl_c_leaves_a_cluster_that_was_there_and_frees_it(tmp_path, script, head, own_folder, storage):
    storage.slow = {Path(large(tmp_path / f"{number}.tar")).name for number in range(2)}
    process = started(script, own_folder, "ray", *(f"{storage.address}/{name}" for name in storage.slow))
    for _ in storage.slow:
        assert storage.waiting.acquire(timeout=120)

    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)

    assert read_by(Cluster("ray", patience=10), tasks([shard(tmp_path / "next.tar")]))[0][0].file.samples == 20
    assert head.process.poll() is None
