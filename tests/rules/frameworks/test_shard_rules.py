"""Rules about shards stay silent where the evidence does not carry them."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Wrapped
from unstuck.evidence.finding import Finding
from unstuck.evidence.loader import Fetching, Loader, ShardError, Shards
from unstuck.evidence.process import Failure, Process
from unstuck.rules.engine import judge, rank_findings

MADE = Place("/data/train.py", 12, "main")
LOST = ShardError("/data/b.tar", "ReadError", "unexpected end of data", 2.0, "read", "warn_and_continue", goes_on=True)
LOST = msgspec.structs.replace(LOST, rest_lost=True, before=20, gave=20)
OPEN = ShardError("/data/c.tar", "OSError", "input/output error", 2.0, "open", "warn_and_continue", goes_on=True)
DECODE = ShardError("/data/a.tar", "ValueError", "no image", 2.0, "decode", "ignore_and_continue", goes_on=True)
EMPTY = [Place("/venv/site-packages/webdataset/compat.py", 318, "check_empty")]


def run_with(shards: Shards, failure: Failure | None = None) -> Evidence:
    """One main process with a worker, which reads these."""
    loader = Loader(1, dataset="webdataset.compat.WebDataset", iterable=True, num_workers=1, pids=[11], passes=1)
    caught = failure and msgspec.structs.replace(
        failure, how="uncaught", message=f"Caught {failure.type} in DataLoader worker"
    )
    main = Process("n", 10, 1, "main", loaders=[loader], failures=[caught] if caught else [], last_sign=9.0)
    worker = Process("n", 11, 10, "worker", worker=0, workers=1, shards=[shards], last_sign=9.0)
    worker = msgspec.structs.replace(worker, failures=[failure] if failure else [])
    return Evidence(run=Run("r"), recording=[main, worker], exits=[])


def part(*errors: ShardError, **facts: object) -> Shards:
    known = {"total": 10, "mine": 10, "opened": 10, "finished": 9, "samples": 380, "usual": 40, "passes": 1}
    known |= {"failed": len(errors), "library": "webdataset", "name": "data", "where": MADE, "errors": list(errors)}
    return msgspec.convert(known | facts, Shards, from_attributes=True)


def found(evidence: Evidence) -> list[Finding]:
    return rank_findings(judge(Case(evidence)))


@pytest.mark.parametrize(
    ("error", "facts", "expected"),
    [
        (LOST, {}, ["handler-drops-shard-rest"]),
        (LOST, {"total": 4000, "opened": 4000}, []),  # one bad shard in thousands: the handler is there for it
        (msgspec.structs.replace(LOST, gave=39), {}, []),  # reading went on after it
        (OPEN, {}, ["shard-read-errors"]),
        (OPEN, {"total": 4000, "opened": 4000}, []),
        (DECODE, {}, []),  # one sample of 380
        (DECODE, {"failed": 11}, []),  # 3 %
        (DECODE, {"failed": 40}, ["shard-read-errors"]),
        (msgspec.structs.replace(DECODE, handler="", goes_on=False), {"failed": 40}, []),  # nobody swallowed it
    ],
)
def test_what_is_said_of_an_error_that_a_handler_swallowed(
    error: ShardError, facts: dict[str, object], expected: list[str]
) -> None:
    assert [one.rule for one in found(run_with(part(error, **facts)))] == expected


def test_the_loss_is_told_in_samples_and_as_a_share() -> None:
    (finding,) = found(run_with(part(LOST)))
    assert "skips the rest of it: about 20 samples lost per epoch (5 %)" in finding.cause


def test_a_worker_that_had_shards_and_could_read_none_is_not_said_to_have_had_too_few() -> None:
    # given the library's own guess, "perhaps you have fewer shards than workers", where two could not be opened
    failure = Failure("fetch", "ValueError", "No samples found in dataset", 3.0, frames=EMPTY)
    shards = part(OPEN, total=2, mine=2, opened=0, finished=0, samples=0, usual=0)
    roots = [one for one in found(run_with(shards, failure)) if one.role == "root"]
    # then the errors are the reason
    assert [one.rule for one in roots] == ["shard-read-errors"]
    lost = "c.tar could not be opened and warn_and_continue skips it"
    assert roots[0].cause == f"{lost}: worker 0 got no sample from 2 shards."


def test_a_worker_without_a_shard_is() -> None:
    failure = Failure("fetch", "ValueError", "No samples found in dataset", 3.0, frames=EMPTY)
    shards = part(total=2, mine=0, opened=0, finished=0, samples=0, usual=0)
    roots = [one for one in found(run_with(shards, failure)) if one.role == "root"]
    assert [one.rule for one in roots] == ["wds-fewer-shards-than-workers"]


def test_a_crash_that_has_nothing_to_do_with_a_lost_shard_stays_the_root() -> None:
    failure = Failure("fetch", "KeyError", "label", 3.0, frames=[MADE])
    roots = [one for one in found(run_with(part(LOST), failure)) if one.role == "root"]
    assert [one.rule for one in roots] == ["worker-python-exception"]


def test_an_incomplete_sample_of_a_broken_shard_is_its_consequence() -> None:
    failure = Failure("fetch", "KeyError", "label", 3.0, frames=[MADE])
    half = ShardError("/data/b.tar", "KeyError", "label", 3.0, "to_tuple", key="b20")
    roots = [one for one in found(run_with(part(LOST, half), failure)) if one.role == "root"]
    assert [one.rule for one in roots] == ["handler-drops-shard-rest"]
    assert roots[0].symptom == "crashed"


def test_a_stage_that_raises_names_its_sample_and_the_handler_that_would_leave_it_out() -> None:
    failure = Failure("fetch", "KeyError", "label", 3.0, frames=[MADE])
    half = ShardError("/data/b.tar", "KeyError", "label", 3.0, "map", key="b20")
    (root,) = [one for one in found(run_with(part(half), failure)) if one.role == "root"]
    assert root.rule == "worker-python-exception"
    assert ".map(f, handler=wds.warn_and_continue)" in root.remedy.code
    assert "in map of sample b20 of /data/b.tar" in root.seen


def ranks_with(shards: Shards, *contents: list[int], wrapped: bool = True) -> Evidence:
    """Ranks that train together, each with a worker whose first batches were these."""
    processes = []
    for rank, content in enumerate(contents):
        pid = 10 * (rank + 1)
        loader = Loader(1, iterable=True, num_workers=1, pids=[pid + 1], passes=1, batches=9, optimizer_steps=9)
        models = [Wrapped("DistributedDataParallel", 1.0)] if wrapped else []
        processes += [
            Process("n", pid, 1, "main", rank=rank, world=len(contents), loaders=[loader], wrapped=models),
            Process("n", pid + 1, pid, "worker", worker=0, shards=[shards], fetching=[Fetching(0, digests=[content])]),
        ]
    return Evidence(run=Run("r", status=0), recording=processes, exits=[])


def test_ranks_that_read_the_same_shards_in_the_same_order_are_told() -> None:
    everything = part(ranks=1, total=4, mine=4)
    (finding,) = found(ranks_with(everything, [1, 2, 3], [1, 2, 3]))
    assert (finding.rule, finding.symptom) == ("wds-no-nodesplitter", "wrong")
    assert "does not split its 4 shards over the ranks" in finding.cause
    (finding,) = found(ranks_with(part(ranks=1, total=4, splitter="split_by_node"), [1, 2, 3], [1, 2, 3]))
    assert finding.remedy.code[0].startswith('os.environ["RANK"]')


@pytest.mark.parametrize(
    ("shards", "other", "wrapped"),
    [
        (part(ranks=1, total=4), [4, 5, 6], True),  # each shuffles on its own
        (part(ranks=1, total=4, resampled=True), [1, 2, 3], True),
        (part(ranks=2, total=4, splitter="split_by_node"), [1, 2, 3], True),
        (part(ranks=1, total=4), [1, 2, 3], False),  # nobody says that they train one model
    ],
)
def test_ranks_that_share_or_draw_or_do_not_train_together_are_left_alone(
    shards: Shards, other: list[int], wrapped: bool
) -> None:
    assert found(ranks_with(shards, [1, 2, 3], other, wrapped=wrapped)) == []


def test_constant_data_is_the_same_everywhere_and_says_nothing() -> None:
    assert found(ranks_with(part(ranks=1, total=4), [7, 7, 7], [7, 7, 7])) == []


def test_a_rank_whose_pipeline_leaves_everything_out_is_told_as_that() -> None:
    told = evidence_of("wds-empty-rank-hang", "found")
    change = msgspec.structs.replace
    facts = {"mine": 1, "opened": 1, "finished": 1, "samples": 200, "passes": 1}

    def left_out(one: Process) -> Process:
        return change(one, shards=[each if each.mine else change(each, **facts) for each in one.shards])

    first = found(change(told, recording=[left_out(one) for one in told.recording or ()]))[0]
    assert first.cause.startswith("Deadlock: the pipeline of rank 1 dropped all 200 samples of 1 shard, and rank 0 ")
