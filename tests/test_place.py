"""Run folders: where they lie, who shares them, who watches them, who may look into them."""

from __future__ import annotations

import os
import stat

import pytest

from stuck import needs_root
from unstuck.errors import UserError
from unstuck.inside.core import run_folder
from unstuck.watching import run_storage


def test_one_watcher_is_elected_per_node(tmp_path):
    first = run_storage.elect(tmp_path)

    assert run_storage.elect(tmp_path) is None
    first.close()
    assert run_storage.elect(tmp_path) is not None


def test_where_space_cannot_be_reserved_recordings_lie_on_a_local_disk_and_are_brought_home(tmp_path, monkeypatch):
    monkeypatch.setattr(run_storage, "file_system", lambda _: "nfs4")

    folder, recordings = run_storage.make(tmp_path, ["python", "train.py"])
    (recordings / "node.1.2.3.rec").write_bytes(b"written here")
    run_storage.bring_home(recordings, folder)

    assert recordings.parent != folder
    assert (folder / "recordings" / "node.1.2.3.rec").read_bytes() == b"written here"


def test_what_counts_is_the_file_system_that_a_link_leads_to(tmp_path):
    (tmp_path / "runs").symlink_to("/proc/self")

    assert run_storage.file_system(tmp_path / "runs") == "proc"


def test_a_place_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(UserError, match="--run-dir"):
        run_storage.make(tmp_path / "file" / "runs", ["python"])


@pytest.mark.parametrize(
    ("variables", "identity"),
    [
        ({"UNSTUCK_RUN": "night run/7"}, "night-run-7"),
        ({"TORCHELASTIC_RUN_ID": "abc", "MASTER_ADDR": "node1"}, "abc-node1"),
        ({"SLURM_JOB_ID": "99", "SLURM_STEP_ID": "3"}, "slurm-99-3"),
    ],
)
def test_all_processes_of_a_run_agree_on_its_identity(monkeypatch, variables, identity):
    for name in ("UNSTUCK_RUN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert run_folder.identity() == identity


@pytest.fixture
def job(monkeypatch):
    """A process of a Slurm job."""
    for name in ("UNSTUCK_RUN", "TORCHELASTIC_RUN_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    return monkeypatch


def ended(folder):
    """As its watcher leaves it."""
    lock = run_storage.elect(folder)
    lock.say_over()
    lock.close()


def launched(base):
    return run_storage.make(base, ["python", "train.py"])[0]


def test_two_commands_of_one_job_are_two_runs(tmp_path, job):
    first = launched(tmp_path)
    ended(first)

    second = launched(tmp_path)

    assert (first.name, second.name) == ("train-slurm-77-0", "train-slurm-77-0-2")


def test_a_command_after_one_whose_watcher_was_killed_is_another_run(tmp_path, job):
    first = launched(tmp_path)
    run_storage.elect(first).close()  # as the kernel closes it

    assert launched(tmp_path) != first


def test_launchers_that_run_at_the_same_time_share_a_run(tmp_path, job):
    first = launched(tmp_path)
    early = launched(tmp_path)  # before the watcher has its lock
    lock = run_storage.elect(first)
    late = launched(tmp_path)
    lock.close()

    assert first == early == late


def test_a_job_that_is_queued_again_goes_on_with_its_runs_in_their_order(tmp_path, job):
    first = launched(tmp_path)
    ended(first)
    second = launched(tmp_path)
    ended(second)

    job.setenv("SLURM_RESTART_COUNT", "1")
    first_again = launched(tmp_path)
    ended(first_again)
    second_again = launched(tmp_path)

    assert (first_again, second_again) == (first, second)


def test_a_run_that_another_node_has_ended_is_shared_by_one_that_comes_late(tmp_path, job):
    first = launched(tmp_path)
    (first / run_folder.lock_name("another-node")).write_text("ended 0 1 1")

    assert launched(tmp_path) == first


def test_a_run_folder_is_for_its_owner_alone(tmp_path):
    folder = launched(tmp_path)
    run_storage.describe(folder, ["python", "train.py"], 1)
    run_storage.elect(folder)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    assert {mode for name, mode in modes.items() if name in (folder.name, "recordings")} == {0o700}
    assert {mode for name, mode in modes.items() if name not in (folder.name, "recordings")} == {0o600}


def test_a_folder_where_everybody_may_replace_what_is_written_is_refused(tmp_path):
    tmp_path.chmod(0o777)

    with pytest.raises(UserError, match="everybody may write"):
        launched(tmp_path)


def test_a_folder_that_somebody_else_owns_is_refused(tmp_path):
    needs_root()
    os.chown(tmp_path, 65534, 65534)

    with pytest.raises(UserError, match="belongs to user 65534"):
        launched(tmp_path)


def test_a_run_folder_that_somebody_else_has_prepared_is_not_used(tmp_path, job):
    needs_root()
    tmp_path.chmod(0o1777)
    planted = tmp_path / "train-slurm-77-0"
    planted.mkdir()
    os.chown(planted, 65534, 65534)

    with pytest.raises(UserError, match="belongs to user 65534"):
        launched(tmp_path)


def test_a_link_in_place_of_a_run_folder_is_not_followed(tmp_path, job):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "train-slurm-77-0").symlink_to(elsewhere)

    folder = launched(tmp_path)

    assert folder.name == "train-slurm-77-0-2"
    assert list(elsewhere.iterdir()) == []


def test_all_launchers_of_a_node_record_into_one_folder_on_its_local_disk(tmp_path, job, monkeypatch):
    monkeypatch.setattr(run_storage, "file_system", lambda _: "nfs4")

    folder, first = run_storage.make(tmp_path, ["python", "train.py"])
    _, second = run_storage.make(tmp_path, ["python", "train.py"])
    (first / "node.1.2.3.rec").write_bytes(b"written here")
    run_storage.bring_home(first, folder)
    run_storage.leave_local_disk(first, folder)

    assert first == second
    assert first.parent != folder
    assert stat.S_IMODE((folder / "recordings" / "node.1.2.3.rec").stat().st_mode) == 0o600
    assert not first.exists()
