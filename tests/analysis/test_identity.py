"""A process is who it is by node and pid: containers have equal pids, and a pid is given to one after another."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place
from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Failure, Process

LIMIT = 1 << 30
NODES = ("a", "b")


def main(node, rank, **more):
    loader = Loader(1, created=Place("train.py", 9, "<module>"), num_workers=1, pids=[12], passes=1, batches=5)
    return Process(node, 11, 10, "main", rank=rank, world=2, loaders=[loader], opened=1.0, **more)


def worker(node, rank, **more):
    return Process(node, 12, 11, "worker", rank=rank, worker=0, opened=more.pop("opened", 2.0), **more)


def host(node, kills):
    """Of memory that runs out at 8 s, or does not."""
    samples = [
        Sample(at, available=LIMIT // 2, total=LIMIT, limit=LIMIT, used=LIMIT, peak=LIMIT, oom_kills={"/job": count},
               processes=[Memory(11, 1 << 20), *([] if at > 8 and kills else [Memory(12, 1 << 29)])])
        for at, count in ((7.0, 0), (8.5, kills))
    ]  # fmt: skip
    return Host(node, cpus=2, cgroup="/job", samples=samples)


def one_of_two_nodes(killed):
    """Both nodes have a rank with pid 11 and a worker with pid 12; one of these is OOM-killed."""
    lost = Failure("uncaught", "RuntimeError", "DataLoader worker (pid(s) 12) exited unexpectedly", 8.2)
    recording = [
        process
        for rank, node in enumerate(NODES)
        for process in (main(node, rank, failures=[lost] if node == killed else []), worker(node, rank))
    ]
    exits = [Exit(12, -9, 8.0, "reaped", 11, node=killed), Exit(11, 1, 8.4, "waited", node=killed)]
    other = next(node for node in NODES if node != killed)
    exits += [Exit(12, 0, 9.0, "reaped", 11, node=other), Exit(11, -15, 9.0, "waited", node=other)]
    hosts = [host(node, int(node == killed)) for node in NODES]
    return Evidence(run=Run(id="r", status=1), recording=recording, exits=exits, host=hosts)


@pytest.mark.parametrize("killed", NODES)
def test_of_two_nodes_with_equal_pids_the_one_with_the_oom_kill_is_named_whatever_the_order_of_files(killed):
    evidence = one_of_two_nodes(killed)
    said = set()
    for order in itertools.permutations(evidence.recording):
        for exits in (evidence.exits, evidence.exits[::-1]):
            report = report_on(msgspec.structs.replace(evidence, recording=list(order), exits=list(exits)))
            said.add(tuple((one.rule, one.node, one.rank, one.pid, one.because_of) for one in report.findings))

    rank = NODES.index(killed)
    (told,) = said
    assert told[0] == ("worker-oom-killed", killed, rank, 12, None)
    assert {(node, because_of) for _, node, _, _, because_of in told[1:]} <= {(killed, "worker-oom-killed")}


def test_a_pid_that_was_given_to_a_later_process_is_not_taken_for_the_earlier_one():
    """Worker 0 of the first pass ended well; the kernel gave its pid to the worker of the second, which is killed."""
    early, late = worker("a", None, opened=2.0, ended=3.0), worker("a", None, opened=6.0, fetching=[Fetching(1)])
    exits = [Exit(12, -9, 8.0, "reaped", 11, node="a"), Exit(12, 0, 3.0, "reaped", 11, node="a")]
    case = Case(Evidence(run=Run(id="r"), recording=[late, early], exits=exits))

    assert case.process("a", 12) is late
    assert case.process("a", 12, at=3.0) is early
    assert [seen.status for seen in case.exits_of(early)] == [0]
    assert [seen.status for seen in case.exits_of(late)] == [-9]


def test_an_exit_of_older_evidence_belongs_to_the_process_with_its_pid():
    process = worker("a", None)
    case = Case(Evidence(run=Run(id="r"), recording=[process], exits=[Exit(12, 3, 8.0, "reaped", 11)]))

    assert case.exit_of(process).status == 3
