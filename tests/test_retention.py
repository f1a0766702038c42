"""What is removed: only folders that carry our mark, only what we wrote in them, and none that lives anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from stuck import needs_root
from unstuck import retention
from unstuck.inside.core import run_folder
from unstuck.inside.core.run_folder import process_start
from unstuck.retention import CHECK, RUN, TRIALS
from unstuck.watching import run_storage

LONG_AGO = retention.SILENT + 3600


def touched(path, age):
    for one in (*path.rglob("*"), path):
        os.utime(one, (time.time() - age, time.time() - age), follow_symlinks=False)
    return path


def made(base, name, age=0.0, state="ended", node=None, kind=RUN):
    """A folder as a run of ours leaves it."""
    folder = base / name
    (folder / "recordings").mkdir(parents=True)
    (folder / "logs").mkdir()
    run_folder.mark(str(folder), kind)
    (folder / "run.json").write_text("{}")
    (folder / "recordings" / "elsewhere.1.2.3.rec").write_text("")
    (folder / "logs" / "train_1.log").write_text("")
    if state:
        (folder / run_folder.lock_name(node or os.uname().nodename)).write_text(f"{state} 0 4194304 1")
    return touched(folder, age)


def left(base):
    return sorted(path.name for path in base.iterdir())


def test_the_oldest_runs_go_and_the_newest_stay(tmp_path):
    for age in range(6):
        made(tmp_path, f"run{age}", age * 100)

    removed = retention.forget_old(tmp_path, RUN, keep=2)

    assert left(tmp_path) == ["run0", "run1"]
    assert sorted(removed) == ["run2", "run3", "run4", "run5"]


@pytest.mark.parametrize("kind", [RUN, TRIALS, CHECK])
def test_folders_of_the_users_own_are_never_removed_whatever_they_hold(tmp_path, kind):
    for number in range(60):
        mine = tmp_path / f"study{number}" / "trial-0001"
        mine.mkdir(parents=True)
        for file in ("run.json", "report.json", "asked.json", "model.ckpt", "trial-0001/model.ckpt"):
            (tmp_path / f"study{number}" / file).write_text("{}")
        touched(tmp_path / f"study{number}", LONG_AGO)

    removed = retention.forget_old(tmp_path, kind, keep=1)

    assert removed == []
    assert len(list(tmp_path.glob("study*/trial-0001/model.ckpt"))) == 60


def test_a_copy_that_somebody_made_of_a_run_is_his(tmp_path):
    made(tmp_path, "run", 100).rename(tmp_path / "run-for-the-paper")

    assert retention.forget_old(tmp_path, RUN, keep=0) == []
    assert (tmp_path / "run-for-the-paper" / "run.json").exists()


def test_what_the_user_has_put_into_a_run_folder_stays(tmp_path):
    folder = made(tmp_path, "run", 100)
    (folder / "notes.txt").write_text("worth keeping")
    (folder / "logs" / "my.txt").write_text("worth keeping")
    (folder / "plots").mkdir()

    retention.forget_old(tmp_path, RUN, keep=0)

    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) == [
        "logs", "logs/my.txt", "notes.txt", "plots",
    ]  # fmt: skip


def test_no_link_is_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a.1.2.3.rec").write_text("worth keeping")
    runs = tmp_path / "runs"
    folder = made(runs, "run", 100)
    for path in (folder / "recordings").iterdir():
        path.unlink()
    (folder / "recordings").rmdir()
    (folder / "recordings").symlink_to(precious)
    (runs / "link").symlink_to(made(tmp_path / "other", "link", 100))

    removed = retention.forget_old(runs, RUN, keep=0)

    assert removed == ["run"]
    assert (precious / "a.1.2.3.rec").exists()
    assert (tmp_path / "other" / "link" / "run.json").exists()


def test_a_run_that_is_being_watched_here_stays_however_old_it_is(tmp_path):
    folder = made(tmp_path, "old", LONG_AGO, state="")
    lock = run_storage.elect(folder)
    touched(folder, LONG_AGO)

    assert retention.forget_old(tmp_path, RUN, keep=0) == []

    lock.say_over()
    assert retention.forget_old(tmp_path, RUN, keep=0) == []  # it is being judged
    lock.close()
    assert retention.forget_old(tmp_path, RUN, keep=0) == ["old"]


def test_a_run_that_another_node_watches_stays(tmp_path):
    made(tmp_path, "there", 3600, state="watching", node="another-node")
    made(tmp_path, "ended there", 3600, state="ended", node="another-node")

    assert retention.forget_old(tmp_path, RUN, keep=0) == ["ended there"]


def test_a_run_whose_node_has_been_silent_for_very_long_is_over(tmp_path):
    made(tmp_path, "there", LONG_AGO, state="watching", node="another-node")

    assert retention.forget_old(tmp_path, RUN, keep=0) == ["there"]


def test_a_run_whose_watcher_was_killed_stays_while_one_of_its_processes_lives(tmp_path):
    folder = made(tmp_path, "run", 100)
    name = f"{os.uname().nodename}.1.{os.getpid()}.{process_start(os.getpid())}.rec"
    (folder / "recordings" / name).write_text("")

    assert retention.forget_old(tmp_path, RUN, keep=0) == []


def test_recordings_on_a_local_disk_go_with_their_run_and_nothing_else_does(tmp_path):
    folder = made(tmp_path / "runs", "run", 100)
    local, precious = tmp_path / "unstuck-x", tmp_path / "precious"
    for place_, is_ours in ((local, True), (precious, False)):
        place_.mkdir()
        (place_ / "a.1.2.3.rec").write_text("")
        if is_ours:
            run_folder.mark(str(place_), "recordings")
    (folder / f"recordings-{os.uname().nodename}.at").write_text(str(local))
    other = made(tmp_path / "runs", "other", 100)
    (other / f"recordings-{os.uname().nodename}.at").write_text(str(precious))

    retention.forget_old(tmp_path / "runs", RUN, keep=0)

    assert not local.exists()
    assert (precious / "a.1.2.3.rec").exists()


def test_what_was_removed_is_said(tmp_path):
    runs = tmp_path / "unstuck-runs"
    for number in range(retention.KEPT[RUN] + 1):
        made(runs, f"run{number:02d}", 1000 - number)

    ended = subprocess.run(
        [sys.executable, "-m", "unstuck", "run", "--", "true"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )

    assert "[unstuck] removed 2 old runs from" in ended.stderr
    assert "(the newest 50 are kept): run00, run01" in ended.stderr
    assert len(left(runs)) == retention.KEPT[RUN]


def test_many_launches_at_once_over_many_old_runs_all_run_their_command(tmp_path):
    runs = tmp_path / "unstuck-runs"
    for number in range(200):
        made(runs, f"run{number:03d}", 10_000 - number)
    words = [sys.executable, "-m", "unstuck", "run", "--", "sh", "-c", "echo ran; exit 3"]

    started = [
        subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    ends = [(process.communicate(timeout=300), process.returncode) for process in started]

    assert [(out, code) for (out, _), code in ends] == [("ran\n", 3)] * 8
    assert not [err for (_, err), _ in ends if "Traceback" in err or "failed" in err]


def test_runs_of_other_users_in_a_shared_folder_are_no_reason_not_to_run():
    needs_root("setpriv")
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        for number in range(60):
            made(runs, f"run{number}", 1000)
        runs.chmod(0o1777)

        ended = subprocess.run(
            [*nobody, sys.executable, "-m", "unstuck", "run", "--run-dir", name, "--", "sh", "-c", "exit 3"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

        assert ended.returncode == 3, ended.stderr
        assert "Traceback" not in ended.stderr
        assert "failed" not in ended.stderr
        assert len(left(runs)) == 61


def test_a_folder_that_another_launch_has_just_removed_is_over(tmp_path):
    assert retention.is_over(tmp_path / "gone")
    assert not retention.remove(tmp_path / "gone")
