"""The surroundings that a scenario asks for, made with the real thing: a memory cgroup, a slow disk, a container."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Unavailable(Exception):  # noqa: N818  (it is a reason, not an error)
    """This machine cannot make them, and why."""


class Surroundings(NamedTuple):
    """Words to put in front of `unstuck run`, and in front of the training itself."""

    outside: list[str]
    inside: list[str]


@contextmanager
def surroundings(wanted: dict[str, str]) -> Iterator[Surroundings]:
    """Make what is asked for, and take it away again whatever happens."""
    outside = _slurm(wanted)
    inside: list[str] = []
    group, slow = None, None
    if "linker" in wanted:
        _need_linker()
    if "memory" in wanted:
        group = _memory_group(size(wanted["memory"]))
        outside += ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    if "reading" in wanted:  # bytes a second that come from the disk
        slow = _slow_group(size(wanted["reading"]))
        outside += ["sh", "-c", f'echo $$ > {slow}/cgroup.procs && exec "$@"', "sh"]
    if "shm" in wanted:
        outside += [*_unshare("--mount"), "sh", "-c"]
        outside += [f'mount -t tmpfs -o size={size(wanted["shm"])} tmpfs /dev/shm && exec "$@"', "sh"]
    if "disk" in wanted:  # a small one at /mnt
        outside += [*_unshare("--mount"), "sh", "-c"]
        outside += [f'mount -t tmpfs -o size={size(wanted["disk"])} tmpfs /mnt && exec "$@"', "sh"]
    if "descriptors" in wanted:
        outside += ["sh", "-c", f'ulimit -n {wanted["descriptors"]} && exec "$@"', "sh"]
    if "container" in wanted:
        # The first process of a container is the one that the kernel takes first, and all others go with it.
        outside += [*_unshare("--pid", "--fork", "--kill-child", "--mount-proc")]
        outside += ["sh", "-c", 'echo 1000 > /proc/self/oom_score_adj && exec "$@"', "sh"]
        inside += ["sh", "-c", 'echo 0 > /proc/self/oom_score_adj && exec "$@"', "sh"]
    try:
        yield Surroundings(outside, inside)
    finally:
        for one in (group, slow):
            if one is not None:
                _remove(one)


def _slurm(wanted: dict[str, str]) -> list[str]:
    """A stand-in for Slurm: the variables of a job whose time limit is so many seconds ahead."""
    if "slurm" not in wanted:
        return []
    return ["env", "SLURM_JOB_ID=1", f"SLURM_JOB_END_TIME={int(time.time()) + int(wanted['slurm'])}"]


def _need_linker() -> None:
    if shutil.which("c++") is None:
        raise Unavailable("torch.compile needs a C++ compiler")
    if " " in sys.prefix:  # torch hands its own folder to the linker unquoted
        raise Unavailable("torch.compile cannot link where torch is installed below a folder with a space in its name")


def size(text: str) -> int:
    """Bytes in `1200M`."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 512M")
    return int(match[1]) * UNITS.get(match[2], 1)


def _unshare(*options: str) -> list[str]:
    if shutil.which("unshare") is None:
        raise Unavailable("needs the unshare command (util-linux)")
    if os.getuid() != 0:
        raise Unavailable("needs root, for a namespace of its own")
    return ["unshare", *options]


def _memory_group(limit: int) -> Path:
    """A memory cgroup below the one we are in, v1 or v2, without swap."""
    name = f"unstuck-{os.getpid()}-{time.monotonic_ns()}"
    old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    try:
        if (old / "cgroup.procs").exists():
            group = old / _own("memory") / name
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(limit))
            swap = group / "memory.memsw.limit_in_bytes"
            if swap.exists():
                swap.write_text(str(limit))
            return group
        if (new / "cgroup.controllers").exists():
            group = new / name
            group.mkdir()
            (group / "memory.max").write_text(str(limit))
            (group / "memory.swap.max").write_text("0")
            return group
    except OSError as error:
        raise Unavailable(f"needs a memory cgroup ({error.strerror}: {error.filename})") from error
    raise Unavailable("needs a memory cgroup, and none is mounted")


def _slow_group(rate: int) -> Path:
    """A cgroup (v1) whose reads from the disk below the temporary folder are throttled."""
    top = Path("/sys/fs/cgroup/blkio")
    device = os.stat(tempfile.gettempdir()).st_dev
    group = top / f"unstuck-{os.getpid()}-{time.monotonic_ns()}"
    try:
        group.mkdir()
        (group / "blkio.throttle.read_bps_device").write_text(f"{os.major(device)}:{os.minor(device)} {rate}")
    except OSError as error:
        if group.exists():
            group.rmdir()
        raise Unavailable(f"needs a blkio cgroup and a disk of its own ({error.strerror}: {error.filename})") from error
    return group


def _own(controller: str) -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return ""


def _remove(group: Path) -> None:
    """A cgroup can be removed once the last process in it is gone."""
    for _ in range(100):
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return
