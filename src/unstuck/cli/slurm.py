"""The block for a job script that switches recording on, and says what else is worth to be set."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path

from ..inside.format import SAMPLE_TIMES
from ..inside.run_folder import RUNS, WATCHER
from ..trials.doctor.environment import MISBELIEVED, said_of
from ..watching.running import BOOTSTRAP

WIDTH = 100
TRAINING = ["python", "train.py"]
PORT = 29500


def block(runs: Path, python: str, command: list[str], *, sample_times: bool) -> str:
    """`runs`: a folder that all nodes see. `command`: the training, as it would be started by hand."""
    folder = shlex.quote(str(runs))
    return "\n".join(
        [
            *_said("unstuck: everything started below is recorded, each step of the job into a folder of its own."),
            f"export {RUNS}={folder}",
            f"export {WATCHER}={shlex.quote(python)}",
            'export UNSTUCK_PYTHONPATH="${PYTHONPATH-}"',
            f'export PYTHONPATH={shlex.quote(BOOTSTRAP)}"${{PYTHONPATH:+:$PYTHONPATH}}"',
            f"{'' if sample_times else '# '}export {SAMPLE_TIMES}=1  # a line about every sample in its rank's log",
            "",
            *_said("Not set here, because it would not do what it is often set for:"),
            *(line for one in said_of({}, also=MISBELIEVED) for line in _said(f"{one.about} {one.text}.", "  ")),
            "",
            *_started(command or TRAINING),
            "",
            *_said("While it runs, or after it, from any node that sees the folder, with the job's number for JOBID:"),
            f'#   unstuck logs -f "$(ls -td {folder}/*JOBID* | head -n 1)"',
            f'#   unstuck why "$(ls -td {folder}/*JOBID* | head -n 1)"',
        ]
    )


def _started(command: list[str]) -> list[str]:
    """One task for each node, or for each rank, as the job asks for; torchrun makes the ranks of a node itself."""
    if command[0].rpartition("/")[2] in ("srun", "torchrun"):
        prefix = [] if command[0].endswith("srun") else ["srun"]
        return [" ".join([*prefix, shlex.join(command)])]
    program = command[1:] if command[0].rpartition("/")[2].startswith("python") else ["--no-python", *command]
    return [
        f"srun {shlex.join(command)}",
        *_said("Or several ranks, with `#SBATCH --ntasks-per-node=1`, and processors for their workers:"),
        "# export OMP_NUM_THREADS=1  # torchrun sets that itself; more, if a rank loads with num_workers=0",
        '# head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        '# srun --cpus-per-task="$SLURM_CPUS_PER_TASK" torchrun --nnodes "$SLURM_NNODES" \\',
        f'#   --nproc-per-node "${{SLURM_GPUS_ON_NODE:-1}}" --rdzv-backend c10d --rdzv-endpoint "$head:{PORT}" \\',
        f'#   --rdzv-id "$SLURM_JOB_ID" {shlex.join(program)}',
    ]


def _said(text: str, further: str = "") -> list[str]:
    return [f"# {further}{line}" for line in textwrap.wrap(text, WIDTH - len(further))]
