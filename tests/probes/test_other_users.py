"""`unstuck why` as root on what belongs to another user: nothing is read or written there with the rights of root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from stuck import needs_root, wait_for
from unstuck.diagnose import diagnose
from unstuck.errors import UserError
from unstuck.probes import flight_recorder, owners, processes

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzzing"))
from made_up import a_run

NOBODY, DAEMON = 65534, 1  # users that own nothing here
SECRET = "the secret of root"

# A process of another user that has two recordings mapped, one of which asks to be asked: as `atk.py` of the review.
TRAP = """
import mmap, os, struct, sys, time
base, mode, aim = sys.argv[1:4]
os.makedirs(base + "/run/recordings"); os.makedirs(base + "/other")
read, write = os.pipe()
words = [0] * 512
words[0], words[1], words[2] = int.from_bytes(b"UNSTUCK\\x01", "little"), 1, 4096
words[3], words[40] = os.getpid(), write + 1
maps = []
good = struct.pack("<512Q", *words)
for path, data in ((base + "/run/recordings/z.rec", bytes(4096)), (base + "/other/x.rec", good)):
    open(path, "wb").write(data)
    maps.append(mmap.mmap(os.open(path, os.O_RDWR), 4096))
if mode == "read":
    os.symlink(aim, base + "/other/x.flight")
    open(base + "/run/recordings/.x.flight", "w").close()
else:
    open(base + "/other/x.flight", "w").write("* * * * * root attacker-controlled")
    os.symlink(aim, base + "/run/recordings/.x.flight")
    os.symlink(aim, base + "/run/recordings/x.flight")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def aim():
    """A file of root in a folder of root."""
    needs_root("setpriv")
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    file = folder / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    yield file
    shutil.rmtree(folder)


@pytest.fixture
def theirs():
    """A folder that everybody may write to, and a way to start Python there as another user."""
    needs_root("setpriv")
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    folder.chmod(0o777)
    started = []

    def start(text, *words, user=NOBODY):
        command = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", _python(), "-c"]
        child = subprocess.Popen(
            [*command, textwrap.dedent(text), *map(str, words)], stdout=subprocess.PIPE, text=True, cwd=folder
        )
        started.append(child)
        assert child.stdout.readline() == "ready\n"
        return child

    start.folder = folder
    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()
    shutil.rmtree(folder)


def _python():
    """One that other users can run, too: that of this environment may lie in a home folder."""
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        ran = python and subprocess.run(
            ["setpriv", "--reuid", str(NOBODY), "--clear-groups", python, "-c", ""], capture_output=True, check=False
        )
        if ran and ran.returncode == 0:
            return python
    pytest.skip("there is no Python here that another user can run")
    return None


def everything_below(folder):
    """Names, owners and contents, so that nothing can have been added or changed unseen."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[path] = (about.st_uid, about.st_mode, about.st_ino, content)
    return found


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_link_beside_a_recording_gives_no_file_of_root_away_and_none_is_written_through_it(
    unstuck, theirs, aim, mode
):
    trap = theirs(TRAP, theirs.folder / "trap", mode, aim)
    before = everything_below(theirs.folder)

    ended = unstuck("why", trap.pid)

    assert "Traceback" not in ended.stderr
    assert SECRET not in ended.stdout + ended.stderr
    assert aim.read_text() == SECRET
    assert everything_below(theirs.folder) == before


def test_what_is_asked_and_read_is_done_as_the_user_whose_process_it_is(theirs, tmp_path):
    shown = theirs("import os, time; print('ready', flush=True); time.sleep(600)")
    (tmp_path / "mine").write_text(SECRET)
    (tmp_path / "mine").chmod(0o600)
    owner = owners.owner_of(shown.pid)

    users = owners.as_owner(owner, lambda: [*os.getresuid(), *os.getresgid(), len(os.getgroups())], list[int])

    assert owner == owners.Owner(NOBODY, NOBODY, ())
    assert users == [NOBODY] * 6 + [0]
    assert os.geteuid() == 0
    with pytest.raises(owners.Refused, match="PermissionError"):
        owners.as_owner(owner, (tmp_path / "mine").read_text, str)


def test_the_child_of_another_user_can_write_no_file_and_nobody_looks_into_it(theirs):
    shown = theirs("import os, time; print('ready', flush=True); time.sleep(600)")

    def looked() -> list[str]:
        try:
            (theirs.folder / "written").write_text("something")
        except OSError as error:
            said = error.strerror
        return [said, Path("/proc/self/status").read_text(), str(os.stat("/proc/self/mem").st_uid)]

    said, status, owner_of_memory = owners.as_owner(owners.owner_of(shown.pid), looked, list[str])

    assert said == "File too large"
    assert "NoNewPrivs:\t1" in status
    assert owner_of_memory == "0"  # it is root's, so its user can neither read nor trace it


def children():
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.parametrize(
    ("work", "says", "seconds"),
    [
        (lambda: signal.pause(), "took too long", 0.5),
        (lambda: "x" * (owners.LARGEST + 1), "too large", 60.0),
        (lambda: os._exit(3), "cannot be read", 60.0),
        (lambda: 1 / 0, "ZeroDivisionError", 60.0),
        (lambda: 7, "cannot be read", 60.0),
    ],
    ids=["hangs", "large", "ends", "raises", "another kind"],
)
def test_a_child_that_gives_no_answer_is_left_out_with_the_reason_and_not_left_behind(work, says, seconds):
    needs_root()
    before = children()  # of other tests

    with pytest.raises(owners.Refused, match=says):
        owners.as_owner(owners.Owner(NOBODY, NOBODY), work, str, seconds)

    assert children() <= before


def test_an_error_for_people_comes_through():
    needs_root()

    def work() -> str:
        raise UserError("it is so", "do this")

    with pytest.raises(UserError, match="it is so; do this"):
        owners.as_owner(owners.Owner(NOBODY, NOBODY), work, str)


def test_a_process_with_the_rights_of_two_users_is_nobodys(theirs):
    two = subprocess.Popen(
        ["setpriv", "--ruid", str(NOBODY), "--clear-groups", _python(), "-c", "import time; time.sleep(600)"]
    )
    try:
        # Until setpriv has done its work, it has our own command or its own.
        wait_for(lambda: Path(f"/proc/{two.pid}/cmdline").read_bytes().startswith(_python().encode()))
        assert owners.owner_of(two.pid) is None
        with pytest.raises(owners.Refused, match="several users"):
            owners.as_owner(owners.owner_of(two.pid), os.getcwd, str)
    finally:
        two.kill()
        two.wait()


MAPPED = """
import mmap, os, sys, time
os.umask(0o077)
os.makedirs(sys.argv[1] + "/recordings")
path = sys.argv[1] + "/recordings/x.rec"
open(path, "wb").write(bytes(4096))
kept = mmap.mmap(os.open(path, os.O_RDWR), 4096)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_run_of_two_users_is_looked_at_as_each_of_them(theirs):
    one = theirs(MAPPED, theirs.folder / "one", user=NOBODY)
    other = theirs(MAPPED, theirs.folder / "other", user=DAEMON)

    found = processes.run_folder([one.pid, other.pid])
    turned = processes.run_folder([other.pid, one.pid])

    assert (found.folder, found.owner.uid, found.refused) == (theirs.folder / "one", NOBODY, ())
    assert (turned.folder, turned.owner.uid) == (theirs.folder / "other", DAEMON)
    assert list(owners.grouped([one.pid, other.pid])) == [owners.owner_of(one.pid), owners.owner_of(other.pid)]


FOLLOWS = """
import mmap, os, sys, time
path = sys.argv[1]
kept = mmap.mmap(os.open(path, os.O_RDONLY), 4096, prot=mmap.PROT_READ)
print("ready", flush=True)
time.sleep(600)
"""


def test_one_user_leads_root_to_no_folder_that_only_another_can_read(theirs):
    """The process of one has a recording of the other's mapped, which it was handed: read as itself, there is none."""
    theirs(MAPPED, theirs.folder / "private", user=DAEMON)
    path = theirs.folder / "private" / "recordings" / "x.rec"
    fd = os.open(path, os.O_RDONLY)
    handed = subprocess.Popen(
        ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", _python(), "-c",
         textwrap.dedent(FOLLOWS).replace("os.open(path, os.O_RDONLY)", str(fd)), str(path)],
        pass_fds=[fd], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert handed.stdout.readline() == "ready\n"
        assert str(path) in Path(f"/proc/{handed.pid}/maps").read_text()
        assert processes.run_folder([handed.pid]).folder is None
    finally:
        handed.kill()
        handed.wait()
        handed.stdout.close()
        os.close(fd)


ANSWERS = """
import mmap, os, struct, sys, threading, time
base = sys.argv[1]
os.makedirs(base)
read, write = os.pipe()
words = [0] * 512
words[0], words[3], words[40] = int.from_bytes(b"UNSTUCK\\x01", "little"), os.getpid(), write + 1
open(base + "/x.rec", "wb").write(struct.pack("<512Q", *words))
kept = mmap.mmap(os.open(base + "/x.rec", os.O_RDWR), 4096)
print("ready", flush=True)
while os.read(read, 64):
    open(base + "/half", "w").write('[{"sequence": 3, "operation": "gloo:all_reduce"}]')
    os.replace(base + "/half", base + "/x.flight")
"""


def test_an_answer_of_another_user_is_read_where_it_was_put(theirs):
    rank = theirs(ANSWERS, theirs.folder / "rank")

    answers = flight_recorder.ask([rank.pid])

    assert answers.refused == {}
    assert [one.operation for one in answers.told[rank.pid].collectives] == ["all_reduce"]


def test_a_descriptor_that_is_no_pipe_is_not_written_to(theirs):
    text = ANSWERS.replace("read, write = os.pipe()", "write = os.open(base + '/mine', os.O_CREAT | os.O_WRONLY)")
    rank = theirs(text.replace("while os.read(read, 64):", "while time.sleep(1) is None:"), theirs.folder / "rank")

    assert flight_recorder.ask([rank.pid]) == flight_recorder.Answers()
    assert (theirs.folder / "rank" / "mine").read_bytes() == b""


def given_to(user, folder):
    """A run folder with all that is in it, as that user would have made it."""
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, user, user, follow_symlinks=False)
    return folder


def test_nothing_is_written_into_a_run_folder_of_another_user(unstuck, theirs):
    folder = given_to(NOBODY, a_run(theirs.folder / "run"))
    before = everything_below(folder)

    ended = unstuck("why", folder)

    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert "worker-oom-killed" in ended.stdout
    assert everything_below(folder) == before
    assert "belongs to another user" in unstuck("logs", folder, "--rewrite").stderr
    assert everything_below(folder) == before


def test_files_that_a_folder_of_another_user_names_are_not_opened_by_root(theirs, aim):
    run = theirs.folder / "run"
    given_to(NOBODY, a_run(run))
    about = json.loads((run / "run.json").read_bytes())
    (run / "run.json").write_text(json.dumps({**about, "cwd": str(aim.parent)}))
    (aim.parent / "data").mkdir()
    (aim.parent / "data" / "7.png").write_text(SECRET)

    report = diagnose(run)

    assert report.data is None
    assert [note for note in report.notes if "data files that" in note and "look as that user" in note]


def test_a_python_of_root_that_nobody_else_may_read_is_enough_to_look_as_another(theirs, tmp_path):
    """What is imported only while looking would be missing: root's own environment is closed to the user."""
    given_to(NOBODY, a_run(theirs.folder / "run"))
    home = tmp_path / "closed"
    shutil.copytree(Path(owners.__file__).parents[1], home / "unstuck", ignore=shutil.ignore_patterns("__pycache__"))
    home.chmod(0o700)
    text = f"""
        from pathlib import Path
        from unstuck import diagnose
        from unstuck.probes import owners, processes
        assert diagnose.__file__.startswith({str(home)!r})
        found = processes.RunFolder(Path({str(theirs.folder / "run")!r}), owners.Owner({NOBODY}, {NOBODY}))
        evidence = diagnose._recorded(found, [1])
        print(len(evidence.recording), evidence.unreadable)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert (ended.stdout, ended.stderr) == ("6 []\n", "")


def test_without_root_what_belongs_to_another_user_is_left_out_with_the_reason():
    if os.geteuid() == 0:
        pytest.skip("root may become anybody")
    with pytest.raises(owners.Refused, match="it belongs to user"):
        owners.as_owner(owners.Owner(os.geteuid() + 1, 1), os.getcwd, str)
