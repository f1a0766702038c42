"""Run folders: where they lie, who shares them, who watches them, who may look into them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from stuck import needs_root
from unstuck.errors import UserError
from unstuck.inside import format as f
from unstuck.inside.core import run_folder
from unstuck.watching import run_storage

# What says that launches of one identity belong together.
TOGETHER = {
    "UNSTUCK_RUN": "mine",
    "TORCHELASTIC_RUN_ID": "abc",
    "SLURM_STEP_ID": "0",
    "WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMI_SIZE": "2",
}


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
    for name in (*TOGETHER, "SLURM_STEP_NUM_TASKS", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    return monkeypatch


@pytest.fixture
def step(job):
    """One of the tasks of a job's step."""
    job.setenv("SLURM_STEP_ID", "0")
    return job


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


@pytest.mark.parametrize("variable", TOGETHER)
def test_launchers_that_belong_together_and_run_at_the_same_time_share_a_run(tmp_path, job, variable):
    job.setenv(variable, TOGETHER[variable])
    first = launched(tmp_path)
    early = launched(tmp_path)  # before the watcher has its lock
    lock = run_storage.elect(first)
    late = launched(tmp_path)
    lock.close()

    assert first == early == late


@pytest.mark.parametrize("variables", [{}, {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}, {"WORLD_SIZE": "1"}])
def test_two_commands_of_one_job_at_the_same_time_are_two_runs(tmp_path, job, variables):
    for name, value in variables.items():
        job.setenv(name, value)
    first = launched(tmp_path)
    early = launched(tmp_path)
    locks = [run_storage.elect(folder) for folder in (first, early)]
    late = launched(tmp_path)

    assert None not in locks
    assert len({first, early, late}) == 3


def test_of_many_launches_of_one_job_at_once_no_two_have_the_same_folder(tmp_path, job):
    job.setenv("SLURM_RESTART_COUNT", "1")
    with ThreadPoolExecutor(8) as pool:
        first = set(pool.map(lambda _: launched(tmp_path), range(8)))
        job.setenv("SLURM_RESTART_COUNT", "2")
        again = set(pool.map(lambda _: launched(tmp_path), range(8)))

    assert len(first) == len(again) == 8
    assert first & again


def test_a_second_command_of_a_job_that_runs_beside_gets_its_own_verdict(tmp_path, unstuck):
    """Both are there at the same time: each waits until the other has begun."""
    variables = {name: value for name, value in os.environ.items() if name not in TOGETHER}
    variables["SLURM_JOB_ID"] = "77"
    waits = "touch begun-$0; until [ -e begun-$1 ]; do sleep 0.05; done"

    def one(mine, other):
        return unstuck("run", "--report", f"{mine}.json", "--", "sh", "-c", waits, mine, other, env=variables)

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(one, "ab", "ba"))

    assert [one.returncode for one in ended] == [0, 0]
    words = {json.loads((tmp_path / f"{name}.json").read_text())["run"]["command"][-2] for name in "ab"}
    assert words == {"a", "b"}
    assert len(list((tmp_path / "unstuck-runs").glob("*/report.json"))) == 2


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


def test_a_run_that_another_node_has_ended_is_shared_by_one_that_comes_late(tmp_path, step):
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


# Whoever may write to the folder above can do this at any time; here the command itself does.
SWAPS = """
import os, sys
folder, victim = os.environ["UNSTUCK_FOLDER"], sys.argv[1]
base = os.path.dirname(folder)
os.rename(base, base + "-away")
os.mkdir(base)
os.symlink(victim, folder)
"""


@pytest.fixture
def victim(tmp_path):
    """A folder of the user's with files that are called like some of ours."""
    folder = tmp_path / "elsewhere" / "mine"
    folder.mkdir(parents=True)
    for name in ("report.json", "run.json", "errors.log"):
        (folder / name).write_text("mine")
    return folder


def contents(folder):
    return {path.name: path.read_text() if path.is_file() else "" for path in folder.rglob("*")}


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_folder_that_was_put_in_place_of_the_runs_is_not_written_to(tmp_path, unstuck, victim, options):
    before = contents(victim)
    (tmp_path / "swaps.py").write_text(SWAPS + "print('ran')\nimport time; time.sleep(1.5)\nsys.exit(7)\n")

    ended = unstuck("run", *options, "--", sys.executable, "swaps.py", victim)

    assert ended.returncode == 7
    assert contents(victim) == before
    (run,) = tmp_path.glob("unstuck-runs-away/*/run.json")
    assert json.loads(run.read_text())["status"] == 7
    assert "another folder than the one that was made for the run" in ended.stderr


@pytest.mark.scenario
def test_a_detached_watcher_writes_to_no_folder_that_was_put_in_place_of_the_runs(tmp_path, victim):
    before = contents(victim)
    (tmp_path / "swaps.py").write_text(f"import unstuck; unstuck.watch()\nimport torch\n{SWAPS}")

    ended = subprocess.run(
        [sys.executable, "swaps.py", victim], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )

    assert (ended.returncode, contents(victim)) == (0, before), ended.stderr
    assert list(tmp_path.glob("unstuck-runs-away/*/.unstuck-run"))


# As a rank does at its end, and a process that is refused its recording: their names can be known before.
LINKED = """
import os, sys
sys.path.insert(0, {package!r})
from inside import format as f
from inside.core.process import process
from inside.core.recorder import Recorder, started_ticks
from inside.core.stacks import stacks
from inside.failures import collectives
process.folder, victim = sys.argv[1], sys.argv[2]
one = f"{{process.folder}}/node.1.{{os.getpid()}}.{{started_ticks()}}"
recorder = Recorder(one + ".rec", f.WORKER_LAYOUT)
for link in (one + ".stacks", one + ".flight.half", f"{{process.folder}}/unrecorded-{{os.getpid()}}-28"):
    os.symlink(victim, link)
print(stacks._open(one + ".stacks"))
process._note_refusal(OSError(28, "full"))
collectives._dump_function = lambda: lambda **_: __import__("pickle").dumps({{}})
try:
    collectives.write_flight_record(recorder)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_recorded_process_follows_no_link_in_place_of_a_file_of_its_own(tmp_path, there):
    victim = tmp_path / "victim"
    if there:
        victim.write_text("mine")
    (tmp_path / "recordings").mkdir()
    code = LINKED.format(package=os.path.dirname(os.path.dirname(f.__file__)))

    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "recordings", victim], capture_output=True, text=True, check=False
    )

    assert ended.stdout == "False\nToo many levels of symbolic links\n", ended.stderr
    assert victim.exists() == there
    assert not there or victim.read_text() == "mine"


def test_a_folder_of_somebody_elses_that_holds_ours_can_be_recorded_in(tmp_path, job):
    """He may move ours away, which is held; a project folder on a cluster belongs to whoever made it."""
    needs_root()
    project = tmp_path / "project"
    project.mkdir(mode=0o770)
    os.chown(project, 65534, 65534)
    folder = launched(project / "unstuck-runs")
    os.rename(project / "unstuck-runs", project / "away")
    (project / "unstuck-runs").mkdir()
    (project / "unstuck-runs" / folder.name).symlink_to(tmp_path)

    run_storage.describe(folder, ["python", "train.py"], 1)

    assert not (tmp_path / "run.json").exists()
    assert (project / "away" / folder.name / "run.json").exists()


def test_a_run_folder_that_was_replaced_before_it_is_held_is_refused(tmp_path, job):
    folder = run_folder.make(str(tmp_path), ["python", "train.py"])
    os.rename(folder, f"{folder}-away")
    os.mkdir(folder)

    with pytest.raises(OSError, match="not the folder that was made for the run"):
        run_folder.opened_run(folder)
    os.rmdir(folder)
    os.symlink(f"{folder}-away", folder)
    with pytest.raises(OSError, match="Not a directory"):
        run_folder.opened_run(folder)


def test_all_launchers_of_a_node_record_into_one_folder_on_its_local_disk(tmp_path, step, monkeypatch):
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
