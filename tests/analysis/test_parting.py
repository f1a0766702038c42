"""Where sequences of collectives part: collectives pair by order, so the mistake may lie before the pair that hangs."""

from __future__ import annotations

import msgspec

from unstuck.analysis.collectives import parted
from unstuck.analysis.ranks import Stand
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Collective
from unstuck.evidence.process import Process


def calls(*wanted: str, finished: int = 99) -> list[Collective]:
    """`all_reduce:20[6]`: operation, line, size. The first `finished` of them are."""
    found = []
    for number, text in enumerate(wanted):
        operation, _, rest = text.partition(":")
        line, _, size = rest.rstrip("]").partition("[")
        sizes = [[int(size)]] if size else []
        where = Place("train.py", int(line), "train")
        found.append(Collective(number + 1, operation, float(number), number < finished, sizes=sizes, where=where))
    return found


def ranks(*told: list[Collective]) -> list[Stand]:
    return [
        Stand(rank, Process("n", 10 + rank, 1, "main", rank, collectives=list(one), traced=9.0), None, call="x")
        for rank, one in enumerate(told)
    ]


def test_a_barrier_of_one_rank_is_named_though_it_found_a_partner():
    mine = calls("all_reduce:20[6]", "barrier:40", "barrier:60", finished=2)
    theirs = calls("all_reduce:20[6]", "barrier:60", "all_reduce:20[6]", finished=2)

    found = parted(ranks(mine, theirs))

    assert (found.ranks, found.others, found.first.where.line) == ([0], [1], 40)
    assert found.instead.where.line == 60


def test_calls_of_one_kind_at_different_lines_belong_together():
    """`if rank == 0: … barrier() else: barrier()` is no mistake, and says nothing about a later one."""
    mine = calls("barrier:10", "all_reduce:20[6]", "barrier:40", finished=2)
    theirs = calls("barrier:15", "all_reduce:20[6]", "all_reduce:20[6]", finished=2)

    found = parted(ranks(mine, theirs))

    assert found.first.where.line == 40


def test_all_ranks_but_one_are_right():
    most = calls("all_reduce:20[6]", "all_reduce:20[6]", finished=1)
    odd = calls("all_reduce:20[6]", "all_gather:50[1]", finished=1)

    found = parted(ranks(most, most, odd, most))

    assert (found.ranks, found.others) == ([2], [0, 1, 3])


def test_different_sizes_at_one_line_are_another_mistake():
    assert parted(ranks(calls("all_reduce:20[6]", finished=0), calls("all_reduce:20[7]", finished=0))) is None


def test_a_rank_that_is_only_late_has_not_parted():
    early = calls("all_reduce:20[6]", "all_reduce:20[6]")
    late = calls("all_reduce:20[6]")

    assert parted(ranks(early, late)) is None


def test_a_flight_recorder_that_was_asked_long_ago_says_nothing():
    mine, theirs = ranks(calls("barrier:40", finished=0), calls("all_reduce:20[6]", finished=0))
    old = msgspec.structs.replace(mine.process, last_sign=60.0)

    assert parted([mine._replace(process=old), theirs]) is None
