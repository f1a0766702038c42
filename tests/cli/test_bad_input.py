"""Bad input is one clear line that says what to do, never a traceback."""

from __future__ import annotations

import pytest


def only_line(ended):
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1
    return ended.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["diagnoze"], "there is no command 'diagnoze'; the commands are run, why"),
        (["run"], "there is no command to run; write it after --"),
        (["run", "--on-fire", "--", "true"], "unrecognized arguments: --on-fire; see `unstuck run --help`"),
        (["why", "train.py", "--seconds", "5"], "--seconds samples a live run; name a pid"),
        (["why", "nowhere"], "nowhere does not exist; name a pid or a run folder"),
        (["explain", "worker-oom-kiled"], "did you mean worker-oom-killed?"),
        (["demo", "no-such-scenario"], "`unstuck demo --list` lists them"),
    ],
)
def test_it_says_what_to_do(unstuck, words, says):
    ended = unstuck(*words)

    assert ended.returncode == 2
    assert says in only_line(ended)


def test_a_folder_that_is_no_run_folder(unstuck, tmp_path):
    ended = unstuck("why", tmp_path)

    assert ended.returncode == 2
    assert "is not a run folder: it has no run.json" in only_line(ended)


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"UNSTUCK", "is cut short"),
        (b"PNG" * 5000, "is not a recording of unstuck"),
        (
            int.from_bytes(b"UNSTUCK\x01", "little").to_bytes(8, "little") + (99).to_bytes(8, "little") + bytes(9000),
            "newer",
        ),
        (
            int.from_bytes(b"UNSTUCK\x01", "little").to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(9000),
            "cut short",
        ),
    ],
    ids=["stub", "foreign", "newer", "truncated"],
)
def test_a_bad_recording_is_named_with_what_to_do_and_nothing_is_called_healthy(unstuck, tmp_path, content, says):
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "node.1.2.3.rec").write_bytes(content)

    ended = unstuck("why", tmp_path)

    assert ended.returncode == 2
    assert says in " ".join(ended.stdout.split())
    assert "Traceback" not in ended.stderr


def test_a_file_that_is_no_report(unstuck, tmp_path):
    (tmp_path / "notes.json").write_text('{"hello": 1}')

    ended = unstuck("why", tmp_path / "notes.json")

    assert ended.returncode == 2
    assert "is not an unstuck report" in only_line(ended)


def test_help_names_every_command_and_costs_no_traceback(unstuck):
    ended = unstuck("--help")

    assert ended.returncode == 0
    assert all(f"unstuck {name} " in ended.stdout for name in ("run", "why", "env", "explain", "demo"))


@pytest.mark.parametrize("command", ["run", "why", "env", "explain", "demo"])
def test_each_command_has_help(unstuck, command):
    ended = unstuck(command, "--help")

    assert ended.returncode == 0
    assert len(ended.stdout.splitlines()) > 5
