"""The settings of this machine and of an interpreter's environment, for somebody who wants to load data with them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..evidence.trial import Settings
from . import cgroups, machine

LIBRARIES = (
    "torch", "torchvision", "torchaudio", "torchdata", "numpy", "mkl", "pillow", "pillow-simd", "opencv-python",
    "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless", "h5py", "zarr", "webdataset",
    "litdata", "mosaicml-streaming", "datasets", "transformers", "tokenizers", "tiktoken", "lightning",
    "pytorch-lightning", "accelerate", "pyarrow", "polars", "pandas", "wandb", "tensorboard", "mlflow",
)  # fmt: skip
VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",
    "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
    "PYTHONFAULTHANDLER", "TORCH_SHARING_STRATEGY", "DEBUG_TIMING", "UNSTUCK_SAMPLE_TIMES", "SLURM_JOB_ID",
    "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "TMPDIR",
)  # fmt: skip
PATIENCE = 60.0  # seconds for an interpreter that starts from a slow file system
# What only the interpreter itself can say. It imports no library: torch alone would take seconds.
ASK = """
import json, multiprocessing, platform, sys
from importlib import metadata
found = {}
for name in json.loads(sys.argv[1]):
    try:
        found[name] = metadata.version(name)
    except Exception:
        pass
print(json.dumps({"python_version": platform.python_version(), "versions": found,
    "start_method": multiprocessing.get_context().get_start_method()}))
"""
CONTAINERS = (("docker", "/.dockerenv"), ("podman", "/run/.containerenv"), ("singularity", "/.singularity.d"))


def look(python: str = sys.executable, folder: Path | None = None) -> Settings:
    """As they are for this process and for that interpreter, started in that folder."""
    place = folder or Path.cwd()
    told = _asked(python)
    seen = machine.sample(os.getpid(), [], place, 0.0, closely=False)
    soft, hard = (_limit(one) for one in resource.getrlimit(resource.RLIMIT_NOFILE))
    kernel = os.uname()
    return Settings(
        python=python,
        kernel=kernel.release,
        machine=kernel.machine,
        container=container(),
        shm_size=seen.shm_size,
        shm_free=seen.shm_free,
        shm_kind=machine.file_system(Path("/dev/shm"), mount_only=True),
        folder=str(place),
        folder_kind=machine.file_system(place),
        folder_free=seen.disk_free,
        descriptors=soft,
        descriptors_most=hard,
        memory=seen.total or None,
        memory_available=seen.available or None,
        memory_limit=seen.limit,
        memory_used=seen.used,
        processors=os.cpu_count(),
        processors_allowed=len(cgroups.allowed(os.getpid())) or None,
        processors_granted=len(cgroups.granted(os.getpid())),
        processors_quota=cgroups.processor_quota(os.getpid()),
        sharing_strategy="file_descriptor",  # torch's own on Linux, whatever the environment says
        max_map_count=_number(Path("/proc/sys/vm/max_map_count")),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        **told,
    )


def _asked(python: str) -> dict[str, Any]:
    environment = {**os.environ, "UNSTUCK": "0"}
    try:
        said = subprocess.run(
            [python, "-c", ASK, json.dumps(LIBRARIES)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
        found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return {"unreadable": [f"{python}: {type(error).__name__}: {error}"[:300]]}
    return found


def container() -> str:
    """What kind of container this process is in. A cgroup or a mark tells; "": nothing does."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    for name, mark in CONTAINERS:
        if os.path.exists(mark):
            return name
    groups = _text(Path("/proc/1/cgroup")) + _text(Path("/proc/self/cgroup"))
    known = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))
    found = next((name for word, name in known if word in groups), "")
    return found or ("container" if "container=" in _text(Path("/proc/1/environ")) else "")


def _limit(value: int) -> int | None:
    return None if value == resource.RLIM_INFINITY else value


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
