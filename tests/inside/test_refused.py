"""Where no recording can be made, the training goes on as if we had not been there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from running import TIMEOUT, Run, environment, write

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder

TRAINING = """
import sys
from torch.utils.data import DataLoader

total = 0
for batch in DataLoader(list(range(12)), batch_size=3, num_workers=2):
    total += batch.sum().item()
print("total", total)
sys.exit(5)
"""


def can_mount() -> bool:
    return subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can_mount(), reason="needs the right to mount (unshare -m)")


def run_on(tmp_path: Path, mount: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """The training with its recordings on a file system of its own, and the files that it leaves there."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = write(tmp_path / "train.py", TRAINING)
    command = f'mount {mount} {folder}; "$@"; code=$?; ls {folder}; exit $code'
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, "sh", sys.executable, script],
        env=environment(folder), capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    first, *files = ended.stdout.splitlines()
    assert first == "total 66"
    return ended, files


@needs_mounts
@pytest.mark.scenario
def test_a_full_disk_is_marked_and_changes_nothing_else(tmp_path: Path) -> None:
    # given a disk with room for nothing; when a training is recorded there
    ended, files = run_on(tmp_path, "-t tmpfs -o size=64k none")
    # then it ends as ever, silently, and each process left a mark with the reason
    assert (ended.returncode, ended.stderr) == (5, "")
    assert len(files) == 3
    assert all(name.startswith("unrecorded-") and name.endswith(f"-{errno.ENOSPC}") for name in files)


@needs_mounts
@pytest.mark.scenario
def test_a_disk_that_fills_up_records_what_fits(tmp_path: Path) -> None:
    # given room for the main process and one worker
    room = (f.MAIN_LAYOUT.size() + f.WORKER_LAYOUT.size()) // 1024 + 64
    ended, files = run_on(tmp_path, f"-t tmpfs -o size={room}k none")
    assert (ended.returncode, ended.stderr) == (5, "")
    assert sorted(name.rpartition(".")[2].partition("-")[0] for name in files) == ["rec", "rec", "unrecorded"]


@needs_mounts
@pytest.mark.scenario
def test_a_read_only_disk_changes_nothing(tmp_path: Path) -> None:
    ended, files = run_on(tmp_path, "-t tmpfs -o ro none")
    assert (ended.returncode, ended.stderr, files) == (5, "", [])


@pytest.mark.scenario
@pytest.mark.parametrize("folder", ["gone/recordings", "train.py"])
def test_a_folder_that_is_none_changes_nothing(started: Callable[..., Run], tmp_path: Path, folder: str) -> None:
    run = started(TRAINING, variables={"UNSTUCK_RECORDINGS": str(tmp_path / folder)})
    assert (run.code, run.out, run.err) == (5, "total 66\n", "")


def test_a_limit_on_file_size_is_marked_and_changes_nothing_else(recorded: Callable[..., Run]) -> None:
    # given a limit that lets no recording of a main process be made, in a child that has none yet
    run = recorded("""
        import os, resource
        from torch.utils.data import DataLoader

        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        child = os.fork()
        print(sum(batch.sum().item() for batch in DataLoader(list(range(12)), batch_size=3)), flush=True)
        if child:
            print(child, os.waitpid(child, 0)[1])
    """).succeeded()
    first, second, *child = run.out.split()
    assert (first, second, child[1]) == ("66", "66", "0")
    marks = [path.name for path in run.folder.glob("unrecorded-*")]
    assert marks == [f"unrecorded-{child[0]}-{errno.EFBIG}"]
    assert len(run.facts) == 1


def test_a_refusal_is_asked_for_once(recorded: Callable[..., Run]) -> None:
    # given a run folder that is taken away from under a process
    run = recorded("""
        import os, shutil, sys
        from torch.utils.data import DataLoader
        process = sys.modules["_unstuck_inside.core.process"].process

        asked = []
        os.fork() and os._exit(os.wait()[1] >> 8)
        process.folder = "/proc/no-such-folder"
        type(process)._note_refusal = lambda _, refusal: asked.append(refusal)
        for epoch in range(3):
            for batch in DataLoader([1, 2, 3]):
                pass
        print(len(asked))
    """)
    assert (run.code, run.out, run.err) == (0, "1\n", "")


def test_a_file_that_could_not_be_reserved_is_not_left_behind(tmp_path: Path) -> None:
    # given a size that no file system reserves
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG) + "|" + os.strerror(errno.ENOSPC)):
        Recorder(str(tmp_path / "one.rec"), f.Layout(board=1, totals=1, ring=1 << 50, notes=1, strings=8, last_words=8))
    assert list(tmp_path.iterdir()) == []
