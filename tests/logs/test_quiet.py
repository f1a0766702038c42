"""`unstuck run --quiet`, and a log folder that cannot be written: the run goes on, and nobody's output waits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.scenario


def output_of(tmp_path):
    (found,) = tmp_path.glob("unstuck-runs/*/logs/output_*.log")
    return found.read_text()


def test_streams_go_into_one_file_in_order_and_input_comes_through(unstuck, tmp_path):
    program = "read line; echo one $line; echo two >&2; echo three"

    ended = unstuck("run", "--quiet", "--", "sh", "-c", program, input="word\n")

    assert output_of(tmp_path) == "one word\ntwo\nthree\n"
    assert ended.stdout == ""
    assert "two" not in ended.stderr


@pytest.mark.parametrize(("program", "code"), [("exit 3", 3), ("kill -TERM $$", 143)])
def test_the_exit_code_is_the_commands_own(unstuck, program, code):
    assert unstuck("run", "--quiet", "--", "sh", "-c", program).returncode == code


def test_a_signal_reaches_the_command(tmp_path):
    program = "trap 'echo got it; exit 7' USR1; touch ready; while :; do sleep 0.1; done"
    words = [sys.executable, "-m", "unstuck", "run", "--quiet", "--", "sh", "-c", program]
    running = subprocess.Popen(words, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        wait_for((tmp_path / "ready").exists)
        os.kill(running.pid, signal.SIGUSR1)
        assert running.wait(timeout=120) == 7
        assert output_of(tmp_path) == "got it\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def test_more_output_than_is_kept_is_drained_and_its_end_is_there(unstuck, tmp_path):
    program = "import sys\nfor n in range(200):\n    sys.stdout.write('x' * 499_999 + '\\n')\nprint('the end')\n"

    unstuck("run", "--quiet", "--", sys.executable, "-c", program)

    files = list(tmp_path.glob("unstuck-runs/*/logs/output_*.log"))
    assert sum(one.stat().st_size for one in files) <= 65 << 20
    assert len(files) == 4
    assert min(files, key=lambda one: len(one.name)).read_text().endswith("the end\n")


def test_a_process_that_stays_behind_does_not_hold_the_run_up(unstuck, tmp_path):
    waits = "(while [ ! -e go ]; do sleep 0.1; done; echo late) & echo early"

    ended = unstuck("run", "--quiet", "--", "sh", "-c", waits)

    assert ended.returncode == 0
    assert output_of(tmp_path) == "early\n"
    (tmp_path / "go").touch()
    wait_for(lambda: output_of(tmp_path) == "early\nlate\n")


def test_a_killed_watcher_leaves_the_command_its_output(tmp_path):
    program = "touch ready; for n in 1 2 3 4 5 6 7 8; do sleep 0.2; echo $n || exit 9; done; touch done"
    words = [sys.executable, "-m", "unstuck", "run", "--quiet", "--", "sh", "-c", program]
    running = subprocess.Popen(words, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL)
    wait_for((tmp_path / "ready").exists)

    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    wait_for((tmp_path / "done").exists)
    wait_for(lambda: output_of(tmp_path).endswith("8\n"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_stops_nobody(tmp_path):
    chatty = "import sys\nfor n in range(300):\n    print('x' * 99_999)\nprint('the end')\nopen('../done', 'w')\n"
    command = (
        f"mount -t tmpfs -o size=8m none {tmp_path}/small && cd {tmp_path}/small && "
        'exec "$PYTHON" -m unstuck run --quiet -- "$PYTHON" -c "$CHATTY"'
    )
    (tmp_path / "small").mkdir()

    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env={**os.environ, "CHATTY": chatty, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(f"needs a mount namespace: {ended.stderr.strip()}")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_a_log_folder_that_cannot_be_made_is_one_clear_line_and_the_run_goes_on(unstuck, tmp_path, quiet):
    folder = tmp_path / "unstuck-runs" / "echo-mine"
    folder.mkdir(parents=True)
    (folder / "logs").touch()

    ended = unstuck("run", *quiet, "--", "echo", "hello", env={**os.environ, "UNSTUCK_RUN": "mine"})

    (line,) = [one for one in ended.stderr.splitlines() if "no logs" in one]
    assert ended.returncode == 0
    assert ended.stdout == "hello\n"
    assert line.startswith(
        f"unstuck: no logs in {folder}/logs (File exists); see `ls -la {folder}/logs`; the run goes on"
    )


@pytest.mark.parametrize("words", [["--log-every", "0"], ["--log-level", "LOUD"]])
def test_an_option_that_makes_no_sense_is_said_before_anything_runs(unstuck, words):
    ended = unstuck("run", *words, "--", "echo", "ran")

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1


def test_a_variable_that_makes_no_sense_does_not_keep_the_command_from_running(unstuck):
    ended = unstuck("run", "--", "echo", "ran", env={**os.environ, "UNSTUCK_LOG_EVERY": "many"})

    assert ended.returncode == 0
    assert ended.stdout == "ran\n"
    assert "UNSTUCK_LOG_EVERY" in ended.stderr.splitlines()[0]


def wait_for(condition, seconds=120.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)
