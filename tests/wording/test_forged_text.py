"""What others have named cannot speak to the terminal, nor forge a line of ours: names, exceptions, code, arguments."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.text import Text

from unstuck.cli.main import COULD_NOT_LOOK, main
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.finding import Finding, Remedy
from unstuck.evidence.trial import FAIL, Rung, Target, Trial
from unstuck.logs.files import INFO, Line, written
from unstuck.report import Activity, Report, RunName, Training
from unstuck.views import checks, terminal, trials, tuning
from unstuck.views.as_json import render
from unstuck.views.console import PrintableConsole
from unstuck.views.listing import as_json, show_trainings
from unstuck.views.progress import Climbing
from unstuck.wording.printable import printable, printable_json, printable_lines, shortened

TIMEOUT = 300.0
# Colour, title, clipboard, cursor, an 8-bit escape, names that are turned round, a line separator, and lines of ours.
EVIL = (
    "boom [red]x[/red] \x1b[31mRED\x1b[0m \x1b]0;TITLE\x07 \x1b]52;c;cHduZWQ=\x07 \u202egnp.exe\u202c \x9b31m \u2028"
    "\n[2026-11-17 04:05:51,755] [INFO] [unstuck.verdict] FORGED1\n[unstuck] FORGED2\rFORGED3 \x1b[2J \u2066x\u2069"
)
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
# rich's own colours, and links to files whose names are percent-encoded
OURS = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;(?:id=\d+;file://[\w%./~+-]*|;)\x1b\\")


def raw_in(text: str) -> list[str]:
    return RAW.findall(text)


def forged_in(text: str) -> list[str]:
    """Lines that begin as ours do, or as a log's, and are none."""
    return [
        line
        for line in text.splitlines()
        if re.match(r"\s*(\[unstuck\]|\[\d{4}-|FORGED)", line) and "FORGED" in line[:60]
    ]


@pytest.mark.parametrize("text", ["日本語 데이터 שלום مرحبا ελληνικά café", "🚀 👩‍👩‍👧 ❤️ 🇩🇪", "plain [red] text"])
def test_letters_of_all_scripts_and_emoji_stay(text: str) -> None:
    assert printable(text) == text
    assert printable_lines(text) == text
    assert json.loads(printable_json(json.dumps(text, ensure_ascii=False))) == text


def test_what_is_no_letter_is_written_out() -> None:
    assert printable("a\x1b[31m\n\t\x9b\u202eb\u2028\x7f\udcff") == r"a\x1b[31m\n\t\x9b\u202eb\u2028\x7f\udcff"
    assert printable_lines("a\x1b\r\nb\rc") == "a\\x1b\nb\\rc"
    assert shortened("x\n" * 1000, 4) == "x\\nx\\n…"


def test_a_json_document_says_the_same_without_a_character_that_a_terminal_obeys() -> None:
    document = json.dumps({"text": EVIL, "emoji": "🚀", "tag": "\U000e0041"}, ensure_ascii=False)
    shown = printable_json(document)
    assert raw_in(shown) == []
    assert "\U000e0041" not in shown
    assert json.loads(shown) == {"text": EVIL, "emoji": "🚀", "tag": "\U000e0041"}


def test_a_line_of_a_log_is_one_line() -> None:
    line = written(Line(0.0, INFO, "data", f"[Rank 0] {EVIL}"))
    assert raw_in(line) == []
    assert line.count("\n") == 1


def report() -> Report:
    where = Place(f"/x/{EVIL}.py", 3, EVIL)
    finding = Finding(EVIL, [EVIL], Remedy(EVIL, [EVIL]), rule="worker-killed", symptom="crashed", where=where)
    rung = Rung("samples", "several samples", FAIL, reason=EVIL, traceback=f"Traceback:\n  File {EVIL!r}\n{EVIL}")
    trial = Trial("doctor", rungs=[rung], target=Target(EVIL, {EVIL: EVIL}))
    return Report(
        unstuck="0",
        run=RunName(EVIL, [EVIL], 0.0, EVIL),
        state="crashed",
        findings=[finding],
        activities=[Activity(0, EVIL, unit=EVIL, have=1, live=True, between=EVIL)],
        meaning=EVIL,
        summary=EVIL,
        framework=EVIL,
        notes=[EVIL],
        trial=trial,
        evidence=Evidence(run=Run(id=EVIL)),
    )


VIEWS: dict[str, Callable[[PrintableConsole], None]] = {
    "terminal": lambda console: terminal.show(report(), console, EVIL, ("start", "stages")),
    "healthy": lambda console: terminal.show(
        msgspec.structs.replace(report(), state="healthy", findings=[], notes=[], activities=[]), console, EVIL
    ),
    "doctor": lambda console: trials.show_doctor(report(), [], console, EVIL),
    "tune": lambda console: tuning.show(report(), console, EVIL),
    "check": lambda console: checks.show_check(report(), console),
    "listing": lambda console: show_trainings([Training(1, EVIL, 1.0, 1, 1, 0, [EVIL, EVIL], EVIL)], console),
    "anything": lambda console: console.print(Text(EVIL.replace("\n", " "))),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("terminal", [False, True])
def test_no_view_shows_more_than_its_own_colours_and_lines(name: str, *, terminal: bool) -> None:
    out = io.StringIO()
    VIEWS[name](PrintableConsole(file=out, force_terminal=terminal, width=9000, highlight=False, emoji=False))
    shown = OURS.sub("", out.getvalue()) if terminal else out.getvalue()
    assert raw_in(shown) == []
    assert name == "doctor" or forged_in(shown) == [], shown  # a traceback keeps its lines


@pytest.mark.parametrize("text", [render(report()), as_json([Training(1, EVIL, 1.0, 1, 1, 0, [EVIL], EVIL)])])
def test_json_on_the_terminal_is_escaped(text: str) -> None:
    assert raw_in(text) == []
    json.loads(text)


def test_what_is_said_of_a_rung_is_one_line() -> None:
    out = io.StringIO()
    with Climbing(out, [Rung("samples", "several samples", FAIL)]) as climbing:
        climbing.ended(Rung("samples", "several samples", FAIL, reason=EVIL))
    assert raw_in(out.getvalue()) == []
    assert out.getvalue().count("\n") == 1


TRAINING = """
import json, sys
import torch, unstuck
from torch.utils.data import DataLoader, Dataset

EVIL = json.load(open("evil.json"))

class Records(Dataset):
    def __init__(self):
        self.name = EVIL
    def __len__(self):
        return 16
    def __getitem__(self, index):
        if index == 9:
            path = "/data/x;touch${IFS}PWNED;#\\x1b[31m.png"
            raise RuntimeError(EVIL)
        return torch.zeros(2)

def main():
    with unstuck.stage("st" + EVIL, item="it" + EVIL):
        pass
    with unstuck.phase("ph" + EVIL):
        pass
    unstuck.metric(**{"loss" + EVIL: 1.0}, step=1)
    unstuck.note("TAG" + EVIL, foo="bar" + EVIL)
    unstuck.progress("pr" + EVIL, have=1, need=2, unit="u" + EVIL)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in DataLoader(Records(), batch_size=2, num_workers=1):
        model(batch).sum().backward()
        optimizer.step()

main()
"""


def unstuck(folder: Path, *words: str) -> str:
    """What it says, on both streams."""
    command = [sys.executable, "-m", "unstuck", *words]
    environment = {**os.environ, "UNSTUCK_SAMPLE_TIMES": "1"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=TIMEOUT, check=False)
    return ended.stdout.decode() + ended.stderr.decode()


def test_a_training_full_of_escape_codes_is_told_without_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "evil.json").write_text(json.dumps(EVIL))
    command = [sys.executable, "train.py", EVIL.replace("\0", "")]
    said = {"run": unstuck(tmp_path, "run", "--quiet", "--", *command)}  # quiet: the training's own output is its own
    (run,) = (tmp_path / "unstuck-runs").iterdir()
    said["why"] = unstuck(tmp_path, "why", str(run), "--start", "--stages")
    said["why --json"] = unstuck(tmp_path, "why", str(run), "--json", "--with-evidence")
    said["logs"] = unstuck(tmp_path, "logs", str(run), "--level", "DEBUG")
    said["logs --json"] = unstuck(tmp_path, "logs", str(run), "--level", "DEBUG", "--json")
    said |= {path.name: path.read_text() for path in (run / "logs").glob("[!o]*.log")}
    assert "boom" in said["why"]
    assert {name: raw for name, text in said.items() if (raw := raw_in(text))} == {}
    assert {name: forged for name, text in said.items() if (forged := forged_in(text))} == {}


LOOPING = """
import threading, time
def wait():
    print("ready", flush=True)
    time.sleep(600)
name = EVIL.replace("\\0", "")
thread = threading.Thread(target=time.sleep, args=(600,), name=name[:15], daemon=True)
thread.start()
exec(compile("def turned():\\n    wait()\\nturned()\\n", "/x/" + name + ".py", "exec"))
"""


def test_a_live_look_shows_a_strangers_names_escaped(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(f"EVIL = {EVIL!r}\n{LOOPING}")
    with subprocess.Popen(
        [sys.executable, "loop.py", EVIL], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            said = [unstuck(tmp_path, "why", str(process.pid)), unstuck(tmp_path, "why", str(process.pid), "--json")]
        finally:
            process.kill()
    assert [raw for text in said if (raw := raw_in(text))] == []
    assert [forged for text in said if (forged := forged_in(text))] == []


@pytest.mark.parametrize(
    "words", [["why", "h\n[unstuck] FORGED"], ["logs", "h\n[unstuck] FORGED"], ["h\n[unstuck] FORGED"], ["why", EVIL]]
)
def test_an_argument_that_names_nothing_is_refused_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words]) == COULD_NOT_LOOK

    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert raw_in(said.err) == []
    assert forged_in(said.err) == []
