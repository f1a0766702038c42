"""The block of a finding, as a terminal, a narrow one, a pipe and one without UTF-8 show it."""

from __future__ import annotations

import io
import os
import re

import msgspec
import pytest
from rich.console import Console
from test_views import report, shown

from unstuck.diagnose import report_on
from unstuck.evidence.basics import Place
from unstuck.evidence.finding import Finding, Remedy
from unstuck.probes.source_code import line_at
from unstuck.views.block import MOST_EVIDENCE, show_finding
from unstuck.views.console import console_for

LONG = "unstuck run --report /somewhere/with/a/long/name.json -- torchrun --nproc-per-node 8 train.py " * 3 + "--last"
FOUND = Finding(
    cause="Rank 1 ran out of data, and rank 0 still waits for it.",
    seen=[f"line {number}" for number in range(9)],
    remedy=Remedy("Give every rank the same number of batches.", code=["sampler = DistributedSampler(dataset)"]),
    alternatives=[Remedy("Look at it again.", commands=[LONG]), Remedy("Stop at the shortest.")],
    where=Place("/somewhere/train.py", 37, "train"),
    source="loss.backward()",
    onset_s=7.4,
    rule="ddp-uneven-batches",
    symptom="stuck",
    certainty="certain",
    saw="RuntimeError: Timed out",
)


def block(finding=FOUND, width=100, others=(), **more):
    out = io.StringIO()
    show_finding(finding, others, console_for(out, width), **more)
    return out.getvalue().splitlines()


def test_the_first_line_has_the_state_the_id_the_cause_and_the_certainty():
    assert re.fullmatch(r"✗ stuck\[ddp-uneven-batches\]  Rank 1 ran .* waits for it +certain", block(width=110)[0])


def test_the_second_line_shows_the_place_with_the_users_own_code():
    assert block()[1].strip().startswith("--> /somewhere/train.py:37  loss.backward()  7.4 s after the start")


def test_a_line_of_code_that_has_no_room_stands_below_its_place():
    lines = block(msgspec.structs.replace(FOUND, source="x" * 50), width=80)

    assert "  --> /somewhere/train.py:37  7.4 s after the start" in "\n".join(lines)
    assert f"      {'x' * 50}" in lines


def test_the_fix_comes_before_the_evidence_and_other_ways_out_after_it():
    labels = [line[2:7].strip() for line in block()[2:] if line[2:7].strip()]

    assert labels == ["fix", "or", "or", "why", "saw"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_commands_and_code_are_alone_on_one_line_however_narrow_it_is(width):
    lines = [line.strip() for line in block(width=width)]

    assert LONG in lines
    assert "sampler = DistributedSampler(dataset)" in lines


def test_no_line_ends_in_blanks():
    assert [line for line in block() if line != line.rstrip()] == []


def test_only_the_strongest_evidence_is_shown_unless_all_is_wanted():
    short, whole = "\n".join(block()), "\n".join(block(verbose=True))

    assert f"line {MOST_EVIDENCE - 1}" in short
    assert f"line {MOST_EVIDENCE}" not in short
    assert "+ 6 (--verbose)" in short
    assert "line 8" in whole


def test_what_stood_on_the_screen_is_not_told_again_as_a_consequence():
    echo = Finding("The main process raised RuntimeError: Timed out.", [], Remedy("-"), rule="uncaught-exception",
                   role="consequence", because_of=FOUND.rule)  # fmt: skip
    other = msgspec.structs.replace(echo, cause="Worker 0 was killed.", rule="worker-killed")

    lines = "\n".join(block(others=[echo, other]))

    assert "Worker 0 was killed (worker-killed)" in lines
    assert "uncaught-exception" not in lines


def test_a_path_below_the_readers_folder_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    lines = block(msgspec.structs.replace(FOUND, where=Place(str(tmp_path / "code" / "train.py"), 37)))

    assert lines[1].strip().startswith("--> code/train.py:37")


def test_a_terminal_gets_a_link_to_the_place_and_a_plain_console_nothing_of_the_kind():
    terminal, plain = io.StringIO(), io.StringIO()
    show_finding(FOUND, [], Console(file=terminal, force_terminal=True, color_system="truecolor", width=100))
    show_finding(FOUND, [], console_for(plain, 100, plain=True))

    assert "\x1b]8;" in terminal.getvalue()
    assert "file:///somewhere/train.py" in terminal.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_without_utf_8_it_still_reads():
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    show_finding(FOUND, [], console_for(out, 100))
    out.flush()

    told = raw.getvalue().decode("ascii")
    assert told.startswith("x stuck[ddp-uneven-batches]")
    assert "\\" not in told


def test_the_error_on_the_screen_stands_with_the_cause_behind_it():
    lines = shown(report("worker-oom-killed"))

    assert any(re.match(r"  saw +RuntimeError: DataLoader worker \(pid\(s\) \d+\) exited unexpectedly", line)
               for line in lines)  # fmt: skip


def test_every_block_of_a_kept_run_is_short():
    for rule in ("worker-oom-killed", "ddp-uneven-batches", "shm-exhausted", "dataloader-bound", "straggler-rank"):
        assert len(shown(report(rule), 110)) <= 26, rule


def test_a_line_of_code_is_read_only_while_it_is_what_ran(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss.backward()  # here\n")
    os.utime(script, (1000, 1000))

    assert line_at(str(script), 2, 2000.0) == "loss.backward()  # here"
    assert line_at(str(script), 2, 900.0) == ""  # it was changed since
    assert line_at(str(script), 9, 2000.0) == ""
    assert line_at(str(tmp_path), 1, 2000.0) == ""
    assert line_at("/dev/zero", 1, 2000.0) == ""


def test_judging_again_on_another_machine_reads_no_source():
    assert all(finding.source == "" for finding in report_on(report().evidence).findings)
