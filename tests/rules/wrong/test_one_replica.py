"""A DistributedSampler of one rank: its order changes from epoch to epoch only if it is told so."""

from __future__ import annotations

import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.distributed import Phase, Sampling
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.report import Report

HERE = Place("/code/train.py", 12, "main")
KIND = "torch.utils.data.distributed.DistributedSampler"


def loader(number: int, epochs: tuple[int, ...], *, shuffle: bool = True, steps: int = 20) -> Loader:
    told = [
        Sampling(at, KIND, epoch, 0, shuffle=shuffle, samples=200, dataset_length=200, standard=True, dataset=1)
        for at, epoch in enumerate(epochs, 1)
    ]
    passes = len(epochs)
    return Loader(
        number, dataset="TensorDataset", created=HERE, sampler=KIND, passes=passes, batches=20 * passes, length=20,
        optimizer_steps=steps * passes, sampling=told, bodies=Timing(20 * passes, 1.0),
    )  # fmt: skip


def phases(number: int, kind: str, steps: int) -> list[Phase]:
    """Of three epochs: the loaders take turns."""
    begins = [2.0 * epoch + number for epoch in range(3)]
    return [
        Phase(kind, epoch, at, at + 0.9, loader=number, number_of_pass=epoch + 1, batches=20, steps=steps)
        for epoch, at in enumerate(begins)
    ]


def judged(*loaders: Loader) -> Report:
    known = [*phases(1, "training", 20), *phases(2, "validation", 0)]
    main = Process(
        node="node", pid=7, parent=1, role="main", ended=9.0, last_sign=9.0, loaders=list(loaders), optimizer_steps=60,
        phases=known,
    )  # fmt: skip
    return report_on(Evidence(Run("run", status=0), recording=[main]))


def test_one_rank_whose_sampler_is_told_no_epoch_goes_through_one_order():
    (found,) = judged(loader(1, (0, 0, 0))).findings

    assert (found.rule, found.certainty, found.symptom) == ("sampler-no-set-epoch", "certain", "wrong")
    assert "the only rank gets all 200 samples, in the same order in every epoch" in found.seen


def test_a_loader_of_the_same_line_that_takes_turns_with_it_is_another_one():
    (found,) = judged(loader(1, (0, 0, 0)), loader(2, (0, 0, 0), shuffle=False, steps=0)).findings

    assert "made again" not in " ".join(found.seen)


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param(loader(1, (0, 1, 2)), id="it is told"),
        pytest.param(loader(1, (0, 0, 0), shuffle=False), id="it keeps the order on purpose"),
    ],
)
def test_one_rank_is_left_alone_where(healthy):
    report = judged(healthy)

    assert (report.state, report.findings) == ("healthy", [])
