"""The promise: the command always starts; its exit code, streams and signals are its own, whatever happens to us."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from stuck import needs_root, wait_for
from unstuck.watching.command import OWN, PASSED_ON

# Something of ours fails in every way it can: what is given by name raises, or is replaced, before `unstuck` runs.
BROKEN = """
import importlib, sys
module, _, name = sys.argv[1].rpartition(":")
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
def fails(*args, **kwargs):
    raise RuntimeError("broken on purpose")
setattr(owner, last, fails)
from unstuck.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
PARTS = [
    "unstuck.watching.run_storage:make",
    "unstuck.watching.run_storage:elect",
    "unstuck.watching.run_storage:describe",
    "unstuck.watching.run_storage:note_end",
    "unstuck.watching.follow:Following.__init__",
    "unstuck.watching.follow:Following.tick",
    "unstuck.watching.follow:Following.finish",
    "unstuck.watching.stalls:Stalls.tick",
    "unstuck.watching.slow_steps:Glances.tick",
    "unstuck.watching.slow_steps:Glances.mains",
    "unstuck.watching.foresight:Foresight.tick",
    "unstuck.logs.writer:Logs.tick",
    "unstuck.logs.writer:Logs.__init__",
    "unstuck.logs.folder:LogFolder.report",
    "unstuck.logs.folder:LogFolder.ended",
    "unstuck.diagnose:gather",
    "unstuck.diagnose:report_on",
    "unstuck.cli.run:show",
    "unstuck.cli.notifier:Notifier.tell",
    "unstuck.retention:forget_old",
    "unstuck.watching.watcher:Watcher.__init__",
    "unstuck.watching.watcher:Watcher.tick",
    "unstuck.watching.watcher:Watcher.finish",
    "unstuck.watching.recorded_run:_follow",
    "unstuck.watching.recorded_run:_settle",
    "unstuck.watching.recorded_run:socket.socketpair",
    "unstuck.watching.recorded_run:os.fork",
    # Before the command is there.
    "unstuck.cli.run:around",
    "unstuck.cli.run:from_variables",
    "unstuck.cli.run:Notifier",
    "unstuck.cli.run:Teller.__init__",
    "unstuck.cli.run:run_recorded",
    "unstuck.watching.recorded_run:_take_numbers_of_closed_streams",
    "unstuck.watching.recorded_run:environment",
    "unstuck.watching.recorded_run:run_storage.hold_run",
    "unstuck.watching.recorded_run:WatcherProcess.started",
    # In its parent, after it was started.
    "unstuck.watching.recorded_run:WatcherProcess.send",
    "unstuck.watching.recorded_run:WatcherProcess.look",
    "unstuck.watching.recorded_run:WatcherProcess.wait",
    "unstuck.watching.recorded_run:WatcherProcess.close",
]
QUIET_PARTS = [
    "unstuck.watching.recorded_run:Output",
    "unstuck.watching.recorded_run:Output.started",
    "unstuck.watching.recorded_run:Output.finish",
    "unstuck.logs.quiet:append_private",
    "unstuck.logs.quiet:subprocess.Popen",
]
UNSTUCK = (sys.executable, "-m", "unstuck")
COMMAND = ("sh", "-c", "cat; echo out; echo err >&2; sleep 1.2; exit 7")


def run(tmp_path, *words, before=(), **options):
    command = [*before, sys.executable, "-m", "unstuck", *map(str, words)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, **options)


def broken(tmp_path, part, *words, **options):
    (tmp_path / "broken.py").write_text(BROKEN)
    command = [sys.executable, "broken.py", part, *map(str, words)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120, **options)


@pytest.mark.parametrize("part", PARTS)
def test_whatever_of_ours_fails_the_command_runs_and_its_code_and_streams_are_its_own(tmp_path, part):
    ended = broken(tmp_path, part, "run", "--", *COMMAND, input="in\n")

    assert ended.returncode == 7, ended.stderr
    assert ended.stdout == "in\nout\n"
    assert "err\n" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("part", QUIET_PARTS)
def test_whatever_of_a_quiet_run_fails_the_command_runs_once_and_no_line_of_it_is_lost(tmp_path, part):
    ended = broken(tmp_path, part, "run", "--quiet", "--", *COMMAND, input="in\n")

    assert ended.returncode == 7, ended.stderr
    wait_for(lambda: sorted(_said(tmp_path, ended)) == ["err", "in", "out"])
    assert "Traceback" not in ended.stderr


def _said(folder, ended):
    """What the command printed, on the console or into its file."""
    texts = [ended.stdout, ended.stderr, *(path.read_text() for path in folder.glob("unstuck-runs/*/logs/output_*"))]
    return [line for text in texts for line in text.splitlines() if line in ("in", "out", "err")]


def test_a_part_that_fails_before_the_command_is_one_line(tmp_path):
    ended = broken(tmp_path, "unstuck.cli.run:Notifier", "run", "--", "true")

    assert ended.stderr == (
        "unstuck: no recording in unstuck-runs (RuntimeError: broken on purpose); the command runs unrecorded\n"
    )


def test_signals_reach_a_command_that_runs_unrecorded_because_something_failed(tmp_path):
    """What was held back for a recorded run is let through again, or the command could not be ended."""
    (tmp_path / "broken.py").write_text(BROKEN)
    part = "unstuck.watching.recorded_run:environment"
    command = [sys.executable, "broken.py", part, "run", "--", "sh", "-c", "echo ready; sleep 600"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert running.stdout.readline() == "ready\n"

    os.killpg(running.pid, signal.SIGTERM)

    assert running.wait(timeout=60) == 128 + signal.SIGTERM


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_machine_without_dev_null_is_no_reason_not_to_run(tmp_path, options):
    (tmp_path / "without.py").write_text(
        "import os, sys\nos.devnull = '/dev/no-such-device'\n"
        "from unstuck.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "without.py", "run", "--report", "r.json", *options, "--", "sh", "-c", "exit 7"]

    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    assert (ended.returncode, "Traceback" in ended.stderr) == (7, False)
    assert (tmp_path / "r.json").exists()


def test_what_failed_is_one_line_and_its_traceback_lies_in_the_run_folder(tmp_path):
    ended = broken(tmp_path, "unstuck.watching.follow:Following.tick", "run", "--", "sleep", "2")

    (errors,) = tmp_path.glob("unstuck-runs/*/errors.log")
    assert ended.stderr.count("following the processes failed (RuntimeError: broken on purpose)") == 1
    assert str(errors) in ended.stderr
    assert "in fails" in errors.read_text()
    assert "RuntimeError: broken on purpose" in errors.read_text()


def test_one_part_that_fails_takes_no_other_with_it(tmp_path):
    ended = broken(tmp_path, "unstuck.watching.stalls:Stalls.tick", "run", "--report", "r.json", "--", "true")

    assert ended.returncode == 0
    assert json.loads((tmp_path / "r.json").read_text())["state"] == "unknown"


@pytest.mark.parametrize("name", ["evil.rec", "unrecorded-x", "a.b.c.d.rec", "node.1.99999999999999999999999.7.rec"])
def test_a_strange_file_among_the_recordings_changes_nothing(tmp_path, name):
    command = f'touch "$UNSTUCK_RECORDINGS/{name}"; sleep 1.5; exit 7'

    ended = run(tmp_path, "run", "--report", "r.json", "--", "sh", "-c", command)

    assert ended.returncode == 7
    assert "failed" not in ended.stderr
    assert json.loads((tmp_path / "r.json").read_text())["run"]["command"][-1] == command


@pytest.mark.parametrize("code", ["ENOSYS", "ENOLCK"])
def test_a_file_system_that_cannot_lock_is_no_reason_not_to_run_and_watch(tmp_path, code):
    (tmp_path / "unlockable.py").write_text(
        "import errno, fcntl, os, sys\n"
        f"def flock(fd, how): raise OSError(errno.{code}, os.strerror(errno.{code}))\n"
        "fcntl.flock = flock\n"
        "from unstuck.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )

    ended = subprocess.run(
        [sys.executable, "unlockable.py", "run", "--report", "r.json", "--", "sh", "-c", "exit 7"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 7
    assert "failed" not in ended.stderr
    assert (tmp_path / "r.json").exists()


def test_a_reader_of_stderr_that_is_gone_changes_nothing(tmp_path):
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "unstuck", "run", "--", "sh", "-c", "sleep 1; exit 5"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=writer, stdout=subprocess.DEVNULL)
    os.close(writer)
    os.close(reader)

    assert running.wait(timeout=120) == 5
    (report,) = tmp_path.glob("unstuck-runs/*/report.json")
    assert json.loads(report.read_bytes())["unstuck"]


def test_a_reader_of_stderr_that_reads_nothing_does_not_hold_the_exit_code(tmp_path):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    (tmp_path / "few.py").write_text("import unstuck.watching.recorded_run as b\nb.JUDGING = 5.0\n")
    program = "import few, sys; from unstuck.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "run", "--", "sh", "-c", "exit 5"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=writer, stdout=subprocess.DEVNULL)
    os.close(writer)

    assert running.wait(timeout=120) == 5
    os.close(reader)


@pytest.mark.parametrize("streams", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-", "0<&-"])
def test_streams_that_are_closed_stay_closed_for_the_command(tmp_path, streams):
    look = "import os, sys; open('seen', 'w').write(' '.join(n for n in '012' if os.path.exists(f'/proc/self/fd/{n}')))"
    (tmp_path / "look.py").write_text(f"{look}\nos._exit(7)\n")
    plain = [sys.executable, "-S", "look.py"]

    def seen(*command):
        ended = subprocess.run(
            ["sh", "-c", f'exec "$@" {streams}', "sh", *command], cwd=tmp_path, check=False, timeout=120
        )
        return ended.returncode, (tmp_path / "seen").read_text()

    assert seen(sys.executable, "-m", "unstuck", "run", "--", *plain) == seen(*plain)


def test_arguments_that_are_no_utf_8_are_passed_on_as_they_are(tmp_path):
    odd = os.fsdecode(b"donn\xe9es.tar")

    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "unstuck",
            "run",
            "--report",
            "r.json",
            "--",
            "sh",
            "-c",
            'printf %s "$1"; exit 3',
            "sh",
            odd,
        ],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )

    assert (ended.returncode, ended.stdout) == (3, b"donn\xe9es.tar")
    assert json.loads((tmp_path / "r.json").read_text())["run"]["command"][-1] == "donn\\xe9es.tar"
    assert b"Traceback" not in ended.stderr


def test_a_working_folder_whose_name_is_no_utf_8_is_no_reason_not_to_run(tmp_path):
    odd = os.path.join(os.fsencode(tmp_path), b"b\xff\xfed")
    os.mkdir(odd)

    ended = subprocess.run(
        [sys.executable, "-m", "unstuck", "run", "--", "sh", "-c", "exit 3"],
        cwd=odd,
        capture_output=True,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 3
    assert b"Traceback" not in ended.stderr
    assert os.listdir(os.path.join(odd, b"unstuck-runs"))


@pytest.mark.parametrize("options", [(), ("--run-dir", "{runs}")], ids=["beside it", "elsewhere"])
def test_a_working_folder_that_is_gone_is_no_reason_not_to_run(tmp_path, options):
    words = [word.format(runs=tmp_path / "runs") for word in options]
    gone = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'

    ended = run(tmp_path, "run", *words, "--", "sh", "-c", "exit 3", before=("sh", "-c", gone, "sh"))

    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    assert not words or list((tmp_path / "runs").iterdir())


def test_five_thousand_descriptors_that_were_left_open_change_nothing(tmp_path):
    wanted = min(6000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    (tmp_path / "many.py").write_text(
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({wanted}, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        f"for _ in range({wanted - 1000}): os.set_inheritable(os.open('/dev/null', os.O_RDONLY), True)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )

    ended = run(
        tmp_path, "run", "--report", "r.json", "--", "sh", "-c", "sleep 1.5; exit 7", before=(sys.executable, "many.py")
    )

    assert ended.returncode == 7
    assert "failed" not in ended.stderr
    assert (tmp_path / "r.json").exists()


def test_a_command_without_a_first_line_for_the_kernel_is_run_by_a_shell(tmp_path):
    script = tmp_path / "script"
    script.write_text("echo $1; exit 4\n")
    script.chmod(0o755)

    ended = run(tmp_path, "run", "--", script, "hello")

    assert (ended.returncode, ended.stdout) == (4, "hello\n")


def test_a_command_that_is_missing_leaves_no_folder_behind(tmp_path):
    ended = run(tmp_path, "run", "--", "no-such-program")

    assert ended.returncode == 127
    assert list((tmp_path / "unstuck-runs").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_judging_at_once_and_the_code_stays_the_commands(tmp_path, number):
    hangs = (
        "import sys, time\nimport unstuck.diagnose as d\n"
        "def diagnose(folder):\n    open('judging', 'w').close()\n    time.sleep(600)\nd.diagnose = diagnose\n"
        "from unstuck.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "hangs.py").write_text(hangs)
    running = subprocess.Popen(
        [sys.executable, "hangs.py", "run", "--", "sh", "-c", "exit 7"], cwd=tmp_path, start_new_session=True
    )
    wait_for((tmp_path / "judging").exists)

    os.kill(running.pid, number)

    assert running.wait(timeout=60) == 7
    wait_for(lambda: not _members(running.pid))


@pytest.mark.scenario
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_users_own_command_for_findings_too(tmp_path, number):
    (tmp_path / "train.py").write_text("import torch\nraise ValueError('the end')\n")
    running = subprocess.Popen(
        [*UNSTUCK, "run", "--on-finding", "echo $$ > pid; sleep 600; true", "--", sys.executable, "train.py"],
        cwd=tmp_path,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())

    os.kill(running.pid, number)

    assert running.wait(timeout=60) == 1
    notifier = int((tmp_path / "pid").read_text())
    wait_for(lambda: not _lives(notifier))


@pytest.mark.scenario
def test_the_users_own_command_for_findings_has_the_users_mask_and_limits(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nraise ValueError('the end')\n")
    as_usual = ("sh", "-c", 'umask 0022; ulimit -S -n 777; exec "$@"', "sh")

    run(
        tmp_path,
        *("run", "--on-finding", "(umask; ulimit -S -n) > seen; true", "--", sys.executable, "train.py"),
        before=as_usual,
    )

    assert (tmp_path / "seen").read_text() == "0022\n777\n"


CATCHES = """
import signal, sys
wanted = {int(word) for word in sys.argv[1:]}
for number in wanted:
    signal.signal(number, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
while wanted:
    came = signal.sigwait(wanted)
    wanted.discard(came)
    print(int(came), flush=True)
sys.exit(7)
"""


def test_every_signal_that_is_sent_to_us_is_the_commands(tmp_path):
    numbers = sorted(map(int, signal.valid_signals() - OWN))
    (tmp_path / "catches.py").write_text(CATCHES)
    running = subprocess.Popen(
        [*UNSTUCK, "run", "--", sys.executable, "catches.py", *map(str, numbers)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert running.stdout.readline() == "ready\n"

    for number in numbers:
        os.kill(running.pid, number)
        assert running.stdout.readline() == f"{number}\n"
    _, err = running.communicate(timeout=120)

    assert running.returncode == 7, err
    assert "Traceback" not in err
    assert " failed (" not in err


def test_what_is_not_sent_on_is_what_a_program_cannot_have_or_must_keep():
    assert OWN.isdisjoint({signal.SIGABRT, signal.SIGIO, signal.SIGPWR, signal.SIGVTALRM, signal.SIGRTMIN})
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGRTMIN + 3} <= PASSED_ON


def test_a_signal_without_a_name_that_ends_the_command_ends_us_as_a_shell_would_tell(tmp_path):
    running = subprocess.Popen(
        [*UNSTUCK, "run", "--", "sh", "-c", "echo ready; exec sleep 600"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert running.stdout.readline() == "ready\n"

    os.kill(running.pid, signal.SIGRTMIN + 3)
    _, err = running.communicate(timeout=120)

    assert running.returncode == 128 + signal.SIGRTMIN + 3
    assert " failed (" not in err
    wait_for(lambda: not _members(running.pid))


def test_signals_that_were_blocked_before_are_blocked_in_the_command_with_or_without_a_name(tmp_path):
    blocks = (
        "import os, signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN + 3, signal.SIGUSR1})\n"
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )
    (tmp_path / "blocks.py").write_text(blocks)

    ended = run(tmp_path, "run", "--", "grep", "SigBlk", "/proc/self/status", before=(sys.executable, "blocks.py"))

    wanted = 1 << (signal.SIGRTMIN + 2) | 1 << (signal.SIGUSR1 - 1)
    assert (ended.returncode, int(ended.stdout.split()[1], 16)) == (0, wanted), ended.stderr


def test_ctrl_c_that_ended_the_command_does_not_end_judging(tmp_path):
    command = "trap 'exit 9' INT; echo ready; while :; do sleep 0.1; done"
    running = subprocess.Popen(
        [sys.executable, "-m", "unstuck", "run", "--", "sh", "-c", command],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline() == "ready\n"

    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the command, its parent and its watcher alike
    _, said = running.communicate(timeout=60)

    assert running.returncode == 9
    assert "✗ stopped[" in said


def test_an_unstuck_run_inside_of_another_leaves_the_recording_to_it(tmp_path):
    inner = (sys.executable, "-m", "unstuck", "run", "--", "sh", "-c", "exit 6")

    ended = run(tmp_path, "run", "--", *inner)

    assert ended.returncode == 6
    assert "already recorded by an outer `unstuck run`" in ended.stderr
    assert len(list((tmp_path / "unstuck-runs").iterdir())) == 1


def test_variables_that_outlived_their_run_do_not_keep_another_from_being_recorded(tmp_path):
    """The watcher's pid is now that of a process which was started beside, by the same shell."""
    shell = 'sleep 600 & UNSTUCK_FOLDER=/gone UNSTUCK_WATCHER_PID=$! "$@"; code=$?; kill $!; exit $code'

    ended = run(tmp_path, "run", "--", "sh", "-c", "exit 6", before=("sh", "-c", shell, "sh"))

    assert ended.returncode == 6
    assert "outer `unstuck run`" not in ended.stderr
    assert len(list((tmp_path / "unstuck-runs").iterdir())) == 1


def _members(session):
    """Living processes of a session."""
    pids = map(int, filter(str.isdigit, os.listdir("/proc")))
    return [pid for pid in pids if _lives(pid) and _words(pid)[3:4] == [str(session)]]


def _lives(pid):
    return _words(pid)[:1] not in ([], ["Z"], ["X"])


def _words(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def test_a_thousand_processes_are_watched_within_the_descriptors_there_are(tmp_path):
    """Each of them looks recorded; the watcher may open 256 descriptors."""
    (tmp_path / "crowd.py").write_text(
        "import os, sys, time\n"
        "from unstuck.inside.core.run_folder import process_start\n"
        "folder, node = os.environ['UNSTUCK_RECORDINGS'], os.uname().nodename\n"
        "pids = []\n"
        "for _ in range(1000):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        time.sleep(600); os._exit(0)\n"
        "    pids.append(pid)\n"
        "    open(f'{folder}/{node}.{os.getpid()}.{pid}.{process_start(pid)}.rec', 'w').close()\n"
        "time.sleep(4)\n"
        "for pid in pids: os.kill(pid, 9)\n"
        "sys.exit(7)\n"
    )
    few = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")

    ended = run(tmp_path, "run", "--report", "r.json", "--", sys.executable, "crowd.py", before=few)

    assert ended.returncode == 7, ended.stderr[-2000:]
    assert "failed" not in ended.stderr
    assert "no verdict" not in ended.stderr
    assert (tmp_path / "r.json").exists()


def test_as_the_first_process_of_a_container_it_reaps_orphans_and_gives_the_code_of_the_command(tmp_path):
    needs_root("unshare")
    first = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    orphans = "for _ in 1 2 3; do (sleep 0.1 &) ; done; sleep 1; ps -e -o stat= | grep -c Z; exit 7"

    ended = run(tmp_path, "run", "--report", "r.json", "--", "sh", "-c", orphans, before=first)

    assert (ended.returncode, ended.stdout) == (7, "0\n"), ended.stderr
    assert (tmp_path / "r.json").exists()
