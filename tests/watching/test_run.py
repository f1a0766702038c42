"""`unstuck run` is a good parent: streams, signals and the exit code are the command's own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from unstuck import diagnose
from unstuck.evidence import Evidence, Run
from unstuck.evidence.process import Process

TORCH = "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.02)


def start(tmp_path, *command, **options):
    words = [sys.executable, "-m", "unstuck", "run", "--", *map(str, command)]
    return subprocess.Popen(words, cwd=tmp_path, start_new_session=True, text=True, **options)


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_the_exit_code_is_the_commands_own(unstuck, code):
    assert unstuck("run", "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_signal_that_ends_the_command_gives_128_and_its_number(unstuck):
    assert unstuck("run", "--", "sh", "-c", "kill -TERM $$").returncode == 128 + signal.SIGTERM


def test_a_missing_command_gives_127_and_a_clear_line(unstuck):
    ended = unstuck("run", "--", "no-such-program")

    assert ended.returncode == 127
    assert ended.stderr == "unstuck: no-such-program: command not found\n"


def test_a_file_that_may_not_be_run_gives_126(unstuck, script):
    ended = unstuck("run", "--", script("not a program", "plain.txt"))

    assert ended.returncode == 126


def test_input_and_output_pass_through_untouched(unstuck):
    ended = unstuck("run", "--", "sh", "-c", "cat; echo oops >&2", input="line one\nline two\n")

    assert ended.stdout == "line one\nline two\n"
    assert ended.stderr.startswith("oops\n")


def test_a_signal_sent_to_the_watcher_alone_reaches_the_command(tmp_path):
    program = "trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.1; done"
    running = start(tmp_path, "sh", "-c", program, stdout=subprocess.PIPE)
    try:
        assert running.stdout.readline() == "ready\n"

        os.kill(running.pid, signal.SIGUSR1)

        assert running.stdout.readline() == "got it\n"
        assert running.wait(timeout=30) == 7
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def test_ctrl_c_reaches_the_command_once_and_leaves_nothing_behind(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(
        "import os, time\n"
        "try:\n    print(os.getpid(), flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True); time.sleep(0.5); print('cleaned up')\n"
    )
    terminal, end = os.openpty()
    words = [sys.executable, "-m", "unstuck", "run", "--", sys.executable, str(script)]
    running = subprocess.Popen(
        ["setsid", "--ctty", *words], cwd=tmp_path, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    pid = int(running.stdout.readline())

    os.write(terminal, b"\x03")
    output, _ = running.communicate(timeout=30)

    assert output == "interrupted\ncleaned up\n"
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.scenario
def test_a_killed_watcher_leaves_the_training_running_and_its_recording_judgeable(tmp_path, unstuck, script):
    path = script(
        TORCH + "import time\n"
        "print('ready', flush=True)\n"
        "for (x,) in DataLoader(TensorDataset(torch.rand(40, 2)), batch_size=1):\n    time.sleep(0.05)\n"
        "open('done', 'w').close()\n"
    )
    running = start(tmp_path, sys.executable, path, stdout=subprocess.PIPE)
    assert running.stdout.readline() == "ready\n"

    os.kill(running.pid, signal.SIGKILL)
    wait_for((tmp_path / "done").exists)
    (folder,) = (tmp_path / "unstuck-runs").iterdir()
    judged = json.loads(unstuck("why", folder, "--json").stdout)

    assert judged["findings"] == []
    assert judged["activities"][0]["have"] == 40


def test_a_run_that_ends_while_its_processes_are_looked_for_is_judged_by_its_recording(monkeypatch, tmp_path):
    gone = Process(os.uname().nodename, 2**22 + 1, 1, "main", alive=True)  # no system has such a pid
    monkeypatch.setattr(diagnose, "gather", lambda _: Evidence(run=Run(id="r"), recording=[gone]))

    report = diagnose.diagnose_run(tmp_path, print)

    assert report.run.id == "r"


@pytest.mark.scenario
def test_the_report_is_written_where_it_was_asked_for(unstuck, script, tmp_path):
    path = script(TORCH + "list(DataLoader(TensorDataset(torch.rand(40, 2))))\nraise ValueError('at the end')\n")

    ended = unstuck("run", "--report", "out.json", "--", sys.executable, path)

    report = json.loads((tmp_path / "out.json").read_text())
    assert ended.returncode == 1
    assert report["state"] == "crashed"
    assert report["findings"][0]["rule"] == "uncaught-exception"
    assert report["findings"][0]["where"] == {"file": str(path), "line": 4, "function": "<module>"}


LEAVES = """
import sys
try:
    {"columns": []}["labels"]
except KeyError as error:
    print("no", error)
    %s
"""


@pytest.mark.scenario
def test_an_exception_that_the_program_caught_to_exit_with_a_code_is_named(unstuck, script, tmp_path):
    path = script(TORCH + LEAVES % "sys.exit(3)")

    ended = unstuck("run", "--report", "out.json", "--", sys.executable, path)

    (finding,) = json.loads((tmp_path / "out.json").read_text())["findings"]
    assert (ended.returncode, ended.stdout) == (3, "no 'labels'\n")
    assert finding["rule"] == "uncaught-exception"
    assert finding["where"]["line"] == 6
    assert "the program caught it and called sys.exit() with a code" in finding["seen"]
    assert "traceback above" not in finding["remedy"]["text"]


@pytest.mark.scenario
def test_one_that_did_not_end_it_is_not(unstuck, script, tmp_path):
    path = script(TORCH + LEAVES % "try:\n        sys.exit(3)\n    except SystemExit:\n        pass")

    ended = unstuck("run", "--report", "out.json", "--", sys.executable, path)

    assert ended.returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["findings"] == []


@pytest.mark.scenario
def test_secrets_on_the_command_line_are_written_nowhere(unstuck, script, tmp_path):
    path = script("import torch\n")

    unstuck("run", "--", sys.executable, path, "--api-key", "hunter2", "password=hunter2", "http://me:hunter2@host/")

    written = [one for one in (tmp_path / "unstuck-runs").rglob("*") if one.is_file()]
    assert written
    assert not [one for one in written if b"hunter2" in one.read_bytes()]


def test_an_unwritable_run_folder_is_one_line_and_the_command_runs(unstuck, tmp_path):
    (tmp_path / "file").write_text("not a folder")

    ended = unstuck("run", "--run-dir", "file/runs", "--", "echo", "hello")

    assert ended.returncode == 0
    assert ended.stdout == "hello\n"
    assert ended.stderr.count("\n") == 1
    assert "unrecorded" in ended.stderr


def test_a_command_without_torch_says_that_nothing_was_recorded(unstuck):
    ended = unstuck("run", "--", "true")

    assert ended.returncode == 0
    assert "nothing was recorded" in ended.stderr


def test_switched_off_it_only_runs_the_command(unstuck, tmp_path):
    ended = unstuck("run", "--", "echo", "hello", env={**os.environ, "UNSTUCK": "0"})

    assert (ended.stdout, ended.stderr) == ("hello\n", "")
    assert not (tmp_path / "unstuck-runs").exists()
