"""How files were dealt to ranks and workers, by what each of them brought; on numbers that are made up."""

from __future__ import annotations

import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.loading import Crew, Stream
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one
from unstuck.rules.wrong.uneven_file_assignment import among_workers


def crew(samples: list[int], files: int, ends: list[float] | None = None) -> Crew:
    workers = [Process("a", 20 + number, 10, "worker", worker=number) for number in range(len(samples))]
    at = ends or [one / 10 for one in samples]
    streams = [
        Stream(worker, count, worked=count / 10, ended=end)
        for worker, count, end in zip(workers, samples, at, strict=True)
    ]
    loader = Loader(1, files={"files": files}, passes=1, batches=10, iterable=True, waits=Timing(9, 9.0))
    return Crew(Process("a", 10, 1, "main"), loader, 1, 0.0, max(at), streams, len(streams))


@pytest.mark.parametrize(
    ("samples", "files", "counts"),
    [
        ([200, 100], 3, {0: 2, 1: 1}),
        ([210, 95], 3, {0: 2, 1: 1}),  # files are not equally long
        ([100, 100, 0], 2, {0: 1, 1: 1, 2: 0}),
        ([500, 400], 9, {0: 5, 1: 4}),
    ],
)
def test_samples_tell_how_many_files_each_worker_read(samples, files, counts):
    (dealt,) = among_workers(crew(samples, files), [])

    assert dealt.counts == counts


@pytest.mark.parametrize(("samples", "files"), [([160, 100], 2), ([36, 260], 4), ([150, 150], 3)])
def test_samples_that_are_no_whole_files_tell_nothing(samples, files):
    assert list(among_workers(crew(samples, files), [])) == []


def test_a_list_for_all_ranks_is_divided_among_the_workers_of_all():
    (dealt,) = among_workers(crew([200, 100], 5), [crew([100, 100], 5)])

    assert dealt.counts == {0: 2, 1: 1}


def test_one_file_more_in_many_is_even():
    (few,) = among_workers(crew([300, 200], 5), [])
    (many,) = among_workers(crew([1200, 1100], 23), [])

    assert few.uneven
    assert not many.uneven


@pytest.mark.parametrize(
    ("samples", "costs"),
    [([36, 260], True), ([100, 100], False), ([90, 100], False), ([30, 260, 250], True), ([5, 9], False)],
)
def test_a_worker_that_is_through_early_costs_time_only_where_others_have_far_more(samples, costs):
    assert crew(samples, 0).costs is costs


def test_nothing_is_lost_where_the_loop_itself_takes_as_long():
    busy = crew([36, 260], 0)
    slow_loop = busy._replace(loader=Loader(1, passes=1, batches=50, waits=Timing(49, 12.0), bodies=Timing(50, 25.0)))

    assert not slow_loop.costs


def rank(number: int, files: int, passes: int) -> Process:
    loader = Loader(
        number=1,
        iterable=True,
        created=Place("train.py", 9),
        files={"shards": files},
        passes=passes,
        batches=60,
        optimizer_steps=60,
    )
    return Process(node="node", pid=10 + number, parent=9, role="main", rank=number, world=2, loaders=[loader])


@pytest.mark.parametrize(("passes", "found"), [((12, 4), 1), ((4, 4), 0), ((2, 1), 0)])
def test_few_files_that_are_gone_through_far_more_often_are_told(passes, found):
    evidence = Evidence(run=Run(id="run", status=0), recording=[rank(0, 1, passes[0]), rank(1, 3, passes[1])])

    findings = judge_one(all_rules()["uneven-file-assignment"], Case(evidence)).findings

    assert [(one.rank, one.symptom) for one in findings] == [(0, "wrong")] * found
