"""The scenarios of several ranks once more, on the stand-in for NCCL (scenarios/nccl): the same verdicts.

There a collective returns at once, who waits spins in a function of CUDA's, and a hang ends by an abort without an
exception. That is what the public record says of GPUs; none was ever tried.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from core import SCENARIOS
from stuck import wait_for
from unprepared import reports, started
from unstuck.demo.scenarios import Scenario, run_in_passing
from unstuck.demo.surroundings import Unavailable

STAND_IN = SCENARIOS["ddp-uneven-batches"].path.parents[1] / "nccl"
# What NCCL does otherwise than gloo, or the stand-in cannot do as NCCL.
NOT_THERE = {
    "collective-shape-mismatch": "gloo, which carries the stand-in's data, aborts at unequal sizes; NCCL hangs",
    "collective-timeout-healthy": "monitored_barrier is gloo's alone",
    "omp1-by-torchrun": "a rank that waits spins: on two cores none is idle, and one more thread would not help",
    "rank-crash-cascade-healthy": "a rank is told by gloo that the others have gone, and lives on; with NCCL it hangs",
}
STANDS_IN = "nccl_stand_in"
CORE = ("ddp-uneven-batches", "ddp-uneven-batches-healthy", "collective-timeout")
SEVERAL = re.compile(r"torch\.distributed\.run|nprocs=|devices=2|WORLD_SIZE|get_context")

SLOW_PARTNER = """
import tempfile, time
from pathlib import Path
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

def train(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    weight = torch.zeros(4)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.randn(4000, 4)), batch_size=1)):
        if rank == 1:
            torch.ones(8).sum()
            time.sleep(0.05)
        weight += rows.mean(0)
        dist.all_reduce(weight)
        weight.sum().item()
        if step == 5:
            Path(__file__).with_name("goes_on").touch()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (folder,), nprocs=2, start_method="fork")
"""


@pytest.fixture(scope="session")
def nccl(tmp_path_factory):
    """The variables that put the stand-in in gloo's place."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler, for functions that carry CUDA's names")
    library = tmp_path_factory.mktemp("nccl") / "libcudart_stand_in.so"
    source = STAND_IN / "cuda.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    paths = [str(STAND_IN), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "NCCL_STAND_IN_LIBRARY": str(library)}


def of_ranks():
    several = [name for name, one in SCENARIOS.items() if SEVERAL.search(one.path.read_text()) and not one.trial]
    return sorted(set(several) - set(NOT_THERE))


def backends_of(report):
    """Of the groups that came about: who waits for its peers has what was asked for."""
    groups = [one.group for one in report.evidence.recording or [] if one.group is not None]
    return {group.backend for group in groups if group.ended is not None and not group.failed}


def marked(names):
    """A few in `make test`, all of them in `make scenarios`."""
    marks = {True: pytest.mark.core, False: pytest.mark.calm}
    return [pytest.param(name, marks=[pytest.mark.scenario, marks[name in CORE]]) for name in names]


@pytest.mark.parametrize("name", marked(of_ranks()))
def test_the_verdict_is_that_of_gloo(name, nccl):
    try:
        outcome = run_in_passing(SCENARIOS[name], nccl)
    except Unavailable as reason:
        pytest.skip(str(reason))

    assert outcome.verdict() == SCENARIOS[name].expect, outcome.output[-3000:]
    assert outcome.report.notes == []
    assert backends_of(outcome.report) <= {STANDS_IN}


@pytest.mark.scenario
@pytest.mark.core
def test_a_look_from_outside_at_ranks_that_spin_for_ever_comes_to_a_wait(nccl):
    with started(SCENARIOS["ddp-uneven-batches-end"], variables=nccl) as process:
        states = []
        for report in reports(process, 1.0):
            states.append(report.state)
            if report.state not in ("healthy", "unknown"):
                break

    assert states[-1] == "waiting"
    assert "waiting for the GPU" in " ".join(report.unsettled)


@pytest.mark.scenario
def test_a_rank_that_always_waits_for_its_gpu_and_goes_on_is_healthy(nccl, unstuck, script):
    """One rank computes for longer, and the other spends nearly all of its time in `item`."""
    path = script(SLOW_PARTNER)
    goes_on = path.with_name("goes_on")
    with started(Scenario("slow-partner", path, "healthy", {}, ""), variables=nccl) as process:
        wait_for(goes_on.exists)
        said = json.loads(unstuck("why", process.pid, "--json").stdout)

    assert said["state"] in ("healthy", "slow"), said["unsettled"]
