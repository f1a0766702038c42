"""A check on a Ray cluster: a real one, whose nodes have never heard of unstuck."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pytest
from given_files import large, read_by, shard, some_files, tasks
from ray_heads import Head, Node
from storage import parent

from unstuck.checking.cluster import Cluster
from unstuck.checking.notes import Wish
from unstuck.checking.workers import Task, Workers
from unstuck.errors import UserError

pytestmark = pytest.mark.scenario


@pytest.mark.parametrize("way", ["ray", pytest.param("client", marks=pytest.mark.calm)])
def test_nodes_that_never_heard_of_unstuck_see_what_this_machine_sees(tmp_path, head, way):
    given = tasks(some_files(tmp_path), wish=Wish(decode=True, digests=True, algorithm="sha256"))

    there, moved = read_by(Cluster(head.client if way == "client" else "ray"), given)

    assert (there, moved) == read_by(Workers(2), given)
    assert len([one for one in there if one.file.faults]) == 3


@pytest.mark.calm
def test_paths_are_those_that_were_asked_for(tmp_path, head, monkeypatch):
    shard(tmp_path / "one.tar")
    monkeypatch.chdir(tmp_path)

    reads, _ = read_by(Cluster("ray"), [Task(["one.tar"], Wish())])

    assert [(one.file.path, one.file.samples) for one in reads] == [("one.tar", 20)]


@pytest.mark.calm
def test_what_a_manifest_has_of_a_file_is_compared_there(tmp_path, head, monkeypatch):
    shard(tmp_path / "one.tar")
    monkeypatch.chdir(tmp_path)
    given = [Task(["one.tar"], Wish(digests=True), {"one.tar": bytes(4)})]

    there, _ = read_by(Cluster("ray"), given)

    assert there == read_by(Workers(1), given)[0]
    assert there[0].file.counts["manifest"] >= 40


def test_addresses_are_read_where_the_task_runs(tmp_path, head, storage):
    large(tmp_path / "large.tar")
    given = [f"file://{tmp_path}/large.tar", f"{storage.address}/large.tar"]

    reads, moved = read_by(Cluster("ray"), tasks(given, together=1))

    assert [one.file.samples for one in reads] == [12, 12]
    assert moved == 2 * (tmp_path / "large.tar").stat().st_size


@pytest.mark.calm
def test_a_file_that_a_node_does_not_have_is_unread_and_not_damaged(tmp_path, head):
    reads, moved = read_by(Cluster("ray"), tasks([str(tmp_path / "elsewhere.tar")]))

    assert reads[0].file.faults == []
    assert moved == 0
    assert reads[0].file.unread == (
        f"not on node {os.uname().nodename}: share its folder between the nodes, "
        "or give an address that all of them reach (s3://…)"
    )


def test_nothing_is_lost_or_counted_twice_when_a_ray_worker_is_killed_in_the_middle(tmp_path, head, storage):
    paths = [f"{storage.address}/{Path(large(tmp_path / f'{number}.tar')).name}" for number in range(4)]
    storage.victim, storage.deadly = parent, Counter({"1.tar": 1, "2.tar": 1})

    reads, moved = read_by(Cluster("ray"), tasks(paths, together=2))

    assert storage.deadly.total() == 0
    assert [one.file.path for one in reads] == paths
    assert [(one.file.samples, one.file.faults, one.file.unread) for one in reads] == [(12, [], "")] * 4
    assert moved == sum(one.file.size for one in reads)


def test_a_file_that_kills_every_reader_is_named_and_the_others_of_its_task_are_read(tmp_path, head, storage):
    paths = [f"{storage.address}/{Path(large(tmp_path / f'{number}.tar')).name}" for number in range(3)]
    storage.deadly = Counter({"1.tar": 99})

    reads, _ = read_by(Cluster("ray"), tasks(paths))

    assert [one.file.samples for one in reads] == [12, None, 12]
    assert [one.kind for one in reads[1].file.faults] == ["reader-died"]
    assert "SIGKILL" in reads[1].file.faults[0].what


@pytest.mark.calm
def test_a_file_whose_ray_worker_is_killed_every_time_is_given_up_without_being_blamed(tmp_path, head, storage):
    paths = [f"{storage.address}/{Path(large(tmp_path / f'{number}.tar')).name}" for number in range(2)]
    storage.victim, storage.deadly = parent, Counter({"0.tar": 99})

    reads, _ = read_by(Cluster("ray"), tasks(paths))

    assert reads[0].file.unread == "the Ray worker that had it read was killed, 3 times in a row"
    assert reads[0].file.faults == []
    assert (reads[1].file.samples, reads[1].file.unread) == (12, "")


@pytest.mark.calm
def test_files_of_a_node_that_goes_away_are_read_elsewhere(tmp_path, python, head, storage):
    paths = [f"{storage.address}/{Path(large(tmp_path / f'{number}.tar')).name}" for number in range(4)]
    storage.slow = {"0.tar", "1.tar", "2.tar"}
    node = Node(python, head)

    def lose():
        for _ in storage.slow:
            storage.waiting.acquire()
        node.lose()
        storage.go.set()

    threading.Thread(target=lose, daemon=True).start()
    cluster = Cluster("ray")
    reads, moved = read_by(cluster, tasks(paths, together=1))

    assert (cluster.size.cpus, cluster.size.nodes) == (3, 2)
    assert max(storage.asked[name] for name in storage.slow) > storage.asked["3.tar"]
    assert [(one.file.path, one.file.samples) for one in reads] == [(path, 12) for path in paths]
    assert moved == sum(one.file.size for one in reads)


@pytest.mark.calm
def test_a_cluster_that_goes_away_is_one_clear_line(tmp_path, python, monkeypatch, storage):
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")  # Ray's own patience, 60 s
    head = Head(python)
    try:
        monkeypatch.setenv("RAY_ADDRESS", head.address)
        storage.slow = {Path(large(tmp_path / "slow.tar")).name}
        threading.Thread(target=lambda: storage.waiting.acquire() and head.crash(), daemon=True).start()
        with pytest.raises(UserError) as refused:
            read_by(Cluster("ray"), tasks([f"{storage.address}/slow.tar"]))
    finally:
        head.end()

    assert str(refused.value) == (
        "Ray lost its cluster: Failed to connect to GCS within 5 seconds; "
        "look at it with `ray status`, and go on with --resume"
    )
