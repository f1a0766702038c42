"""Ranks however they were started: one run, one watcher, one log each, and every recording says which rank it is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time

import pytest

from unstuck.analysis.case import Case
from unstuck.diagnose import gather

pytestmark = pytest.mark.scenario

RANK = """
import os, sys, torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)

def work(rank=-1, world=-1, where="env://"):
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world)
    for _ in DataLoader(TensorDataset(torch.rand(8, 3)), batch_size=4, num_workers=1):
        pass
    dist.barrier()
    dist.destroy_process_group()
"""
LAUNCHED = RANK + "\nwork()\n"
SPAWNED = (
    RANK
    + """
if __name__ == "__main__":
    torch.multiprocessing.start_processes(work, (2, f"file://{sys.argv[1]}/meet"), nprocs=2, start_method="fork")
"""
)
SLURM = (
    RANK
    + """
work(int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"]), f"file://{sys.argv[1]}/meet")
"""
)
ELASTIC = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]


def the_run(base):
    """The one run folder, once its watcher has ended."""
    until = time.monotonic() + 120
    while not list(base.glob("unstuck-runs/*/report.json")):
        assert time.monotonic() < until, "the watcher never reported"
        time.sleep(0.1)
    (report,) = base.glob("unstuck-runs/*/report.json")
    return report.parent


def ranks_of(folder):
    found = gather(folder).recording
    return {
        role: sorted((one.rank, one.local_rank, one.world) for one in found if one.role == role)
        for role in ("main", "worker")
    }


def switched_on(words, cwd, **variables):
    """Under `unstuck env`, as a shell or a job script does it."""
    line = f'eval "$({shlex.quote(sys.executable)} -m unstuck env)" && exec "$@"'
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        ["sh", "-c", line, "sh", *map(str, words)], cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True
    )


def check(folder):
    assert ranks_of(folder) == {"main": [(0, 0, 2), (1, 1, 2)], "worker": [(0, 0, 2), (1, 1, 2)]}
    assert len(list(folder.glob("watch-*.jsonl"))) == 1
    assert [len(list(folder.glob(f"logs/debug_rank{rank}_*.log"))) for rank in (0, 1)] == [1, 1]
    assert json.loads((folder / "report.json").read_bytes())["state"] == "healthy"


@pytest.mark.parametrize("launcher", [ELASTIC, ACCELERATE], ids=["torchrun", "accelerate launch"])
def test_a_launcher_under_unstuck_run(tmp_path, script, unstuck, launcher):
    ended = unstuck("run", "--", sys.executable, *launcher, script(LAUNCHED))

    assert ended.returncode == 0, ended.stderr
    check(the_run(tmp_path))


def test_a_launcher_in_a_shell_that_is_switched_on(tmp_path, script):
    _, said = switched_on([sys.executable, *ELASTIC, script(LAUNCHED)], tmp_path).communicate(timeout=120)

    folder = the_run(tmp_path)

    check(folder)
    told = [line for line in said.splitlines() if "[unstuck]" in line]
    assert [line for line in told if "not at its first step yet" not in line] == []  # which a slow start is told by


def test_ranks_that_a_script_spawns_itself(tmp_path, script, unstuck):
    ended = unstuck("run", "--", sys.executable, script(SPAWNED), tmp_path)

    assert ended.returncode == 0, ended.stderr
    check(the_run(tmp_path))


def test_tasks_of_slurm_are_one_run_with_one_watcher(tmp_path, script):
    path = script(SLURM)
    job = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}

    tasks = [
        switched_on([sys.executable, path, tmp_path], tmp_path, SLURM_PROCID=rank, SLURM_LOCALID=rank, **job)
        for rank in ("0", "1")
    ]
    statuses = [task.communicate(timeout=120) and task.returncode for task in tasks]

    assert statuses == [0, 0]
    folder = the_run(tmp_path)
    assert folder.name == "train-slurm-4711-0"
    check(folder)


def test_a_restart_is_another_attempt_of_the_same_run(tmp_path, script, unstuck):
    text = LAUNCHED.replace("work()\n", 'if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": 1 / 0\nwork()\n')
    one = [word if word != "2" else "1" for word in ELASTIC]

    ended = unstuck("run", "--", sys.executable, *one, "--max-restarts", "1", script(text))

    folder = the_run(tmp_path)
    evidence = gather(folder)
    assert ended.returncode == 0, ended.stderr
    assert [(one.number, one.type, one.rank) for one in evidence.attempts] == [(0, "ZeroDivisionError", 0)]
    assert [one.attempt for one in Case(evidence).mains] == [1]
    assert json.loads((folder / "report.json").read_bytes())["state"] == "healthy"


UNEVEN = (
    RANK.replace("import os, sys, torch", "import os, sys, time, torch, torch._dynamo")
    + """
def train(rank, world, where):
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.rand(900 - rank, 3)))):
        model(rows).sum().backward()
        optimizer.step()
        time.sleep(0.2)
        if step == 110:
            break
    dist.barrier()
    os._exit(0)

if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, (2, f"file://{sys.argv[1]}/meet"), nprocs=2, start_method="fork")
"""
)


def test_what_will_go_wrong_is_told_while_the_run_goes_on(tmp_path, script, unstuck):
    ended = unstuck("run", "--", sys.executable, script(UNEVEN), tmp_path)

    assert "rank 1 will get 899 batches, rank 0 900" in " ".join(ended.stderr.split())
    assert json.loads((the_run(tmp_path) / "report.json").read_bytes())["state"] == "healthy"
