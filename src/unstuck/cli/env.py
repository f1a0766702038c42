"""Print the variables that turn on recording for a whole shell, a Slurm script or a pod.

    eval "$(unstuck env)"
    python train.py

Every training started after that is recorded into its own run folder and watched by a separate process.
`unstuck env --off` prints the lines that turn it off again.

    unstuck env --slurm -- python train.py --config base.yaml >> submit_train.sh

prints a block for a job script instead: the same variables, what some other variables really do, and the line that
starts the training.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
from pathlib import Path

from ..errors import UserError
from ..inside.core import run_folder
from ..inside.format import SAMPLE_TIMES
from ..watching.recorded_run import BOOTSTRAP, python_path

NAMES = (run_folder.RUNS, run_folder.WATCHER, SAMPLE_TIMES)
WIDTH = 100
TRAINING = ["python", "train.py"]
PORT = 29500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("unstuck-runs"),
        metavar="DIR",
        help="folder for the run folders (default: unstuck-runs)",
    )
    parser.add_argument(
        "--sample-times", action="store_true", help="log every sample, stage by stage, in the log of its rank"
    )
    parser.add_argument("--off", action="store_true", help="print the lines that turn recording off again")
    parser.add_argument(
        "--slurm", action="store_true", help="print a block for a job script, with the line that starts the training"
    )
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="with --slurm: the command of the training, after `--`"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.command and not arguments.slurm:
        raise UserError("env takes no command", "use `unstuck env --slurm -- COMMAND` for a job script")
    before = os.pathsep.join(
        entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOTSTRAP
    )
    if arguments.off:
        print("\n".join(f"unset {name}" for name in (*NAMES, "UNSTUCK_PYTHONPATH")))
        print(f"export PYTHONPATH={shlex.quote(before)}" if before else "unset PYTHONPATH")
        return 0
    try:
        arguments.run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"no recording in {arguments.run_dir} ({error.strerror})", "choose another folder with --run-dir DIR"
        ) from error
    if arguments.slurm:
        runs = arguments.run_dir.absolute()
        print(_slurm_block(runs, sys.executable, arguments.command, sample_times=arguments.sample_times))
        return 0
    wanted = {
        run_folder.RUNS: str(arguments.run_dir.absolute()),
        run_folder.WATCHER: sys.executable,
        "UNSTUCK_PYTHONPATH": before,
        "PYTHONPATH": python_path(),
    }
    if arguments.sample_times:
        wanted[SAMPLE_TIMES] = "1"
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in wanted.items()))
    return 0


def _slurm_block(runs: Path, python: str, command: list[str], *, sample_times: bool) -> str:
    """`runs`: a folder that all nodes see. `command`: the training, as it would be started by hand."""
    from ..trials.doctor.environment import MISBELIEVED, said_of  # not for a line that a shell evaluates at its start

    folder = shlex.quote(str(runs))
    return "\n".join(
        [
            *_said("unstuck: everything started below is recorded, each job step into its own run folder."),
            f"export {run_folder.RUNS}={folder}",
            f"export {run_folder.WATCHER}={shlex.quote(python)}",
            'export UNSTUCK_PYTHONPATH="${PYTHONPATH-}"',
            f'export PYTHONPATH={shlex.quote(BOOTSTRAP)}"${{PYTHONPATH:+:$PYTHONPATH}}"',
            f"{'' if sample_times else '# '}export {SAMPLE_TIMES}=1  # a line about every sample in its rank's log",
            "",
            *_said("Not set here, because they do not do what they are often set for:"),
            *(line for one in said_of({}, also=MISBELIEVED) for line in _said(f"{one.about} {one.text}.", "  ")),
            "",
            *_started(command or TRAINING),
            "",
            *_said(
                "During the job or after it, from any node that sees the folder (replace JOBID by the id of the job):"
            ),
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
        *_said("Or several ranks, with `#SBATCH --ntasks-per-node=1`, and CPU cores for their workers:"),
        "# export OMP_NUM_THREADS=1  # torchrun sets that itself; more, if a rank loads with num_workers=0",
        '# head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        '# srun --cpus-per-task="$SLURM_CPUS_PER_TASK" torchrun --nnodes "$SLURM_NNODES" \\',
        f'#   --nproc-per-node "${{SLURM_GPUS_ON_NODE:-1}}" --rdzv-backend c10d --rdzv-endpoint "$head:{PORT}" \\',
        f'#   --rdzv-id "$SLURM_JOB_ID" {shlex.join(program)}',
    ]


def _said(text: str, further: str = "") -> list[str]:
    return [f"# {further}{line}" for line in textwrap.wrap(text, WIDTH - len(further))]
