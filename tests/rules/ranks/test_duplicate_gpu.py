"""Ranks that share a GPU: NCCL's words, in evidence that is built by hand around real texts (never tried on a GPU)."""

from __future__ import annotations

from pathlib import Path

import pytest

from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.process import Failure, Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

TEXTS = Path(__file__).parents[2] / "texts"
LINE = Place("/project/train.py", 31, "train")


def text(name):
    return (TEXTS / f"{name}.txt").read_text().partition("\n\n")[2].strip()


def rank(number, message, at=5.0, group_of=None):
    failure = Failure(how="uncaught", type="DistBackendError", message=message, at=at, frames=[LINE])
    return Process("n", 100 + number, 10, "main", rank=number if group_of is None else group_of, failures=[failure])


def run_of(*processes):
    exits = [Exit(one.pid, 1, 6.0, "reaped", 10) for one in processes]
    return Evidence(run=Run(id="r", status=1), recording=list(processes), exits=exits)


def roots(evidence):
    return [one for one in report_on(evidence).findings if one.role == "root"]


def duplicates(*pairs):
    words = text("nccl/duplicate-gpu-of-eight")
    said = {own: words.replace("rank 7 and rank 0", f"rank {own} and rank {other}") for own, other in pairs}
    return run_of(*(rank(own, message, 5.0 + own / 10) for own, message in said.items()))


def test_two_ranks_on_one_gpu_are_named_with_the_device():
    (finding,) = roots(duplicates((0, 1), (1, 0)))

    assert finding.rule == "duplicate-gpu"
    assert finding.certainty == "certain"
    assert finding.cause.startswith("The same GPU (CUDA device f000) is used by ranks 0 and 1;")
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in finding.remedy.code[0]


def test_numbers_within_a_process_group_are_not_taken_for_those_of_the_run():
    words = text("nccl/duplicate-gpu")
    (finding,) = roots(run_of(rank(1, words, group_of=5)))

    assert finding.cause.startswith("The same GPU (CUDA device 10) is used by ranks 0 and 1 of a process group;")
    assert finding.rank == 5


def test_ranks_that_name_different_others_share_one_gpu_together():
    (finding,) = roots(duplicates((0, 1), (1, 0), (2, 0), (3, 0)))

    assert finding.cause.startswith("The same GPU (CUDA device f000) is used by ranks 0, 1, 2 and 3;")


def test_a_rank_that_lost_the_refused_ones_is_their_consequence():
    evidence = duplicates((0, 1), (1, 0))
    third = rank(2, text("nccl/remote-as-internal-error"), 5.3)
    findings = report_on(run_of(*evidence.recording, third)).findings

    assert [one.rule for one in findings if one.role == "root"] == ["duplicate-gpu"]
    assert {one.because_of for one in findings if one.role == "consequence"} == {"duplicate-gpu"}


@pytest.mark.parametrize("name", ["nccl/invalid-usage", "nccl/internal-error", "nccl/unhandled-cuda-error"])
def test_other_errors_of_nccl_are_no_shared_gpu(name):
    assert judge_one(all_rules()["duplicate-gpu"], Case(run_of(rank(0, text(name))))).verdict == "clear"
