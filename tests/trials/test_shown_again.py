"""What was tried can be looked at again, by its folder."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kept import evidence_of
from unstuck.cli.main import FOUND, main
from unstuck.diagnose import report_on

SHOWN = {
    "works-without-workers": ["Test Summary", "← here", "works without workers and crashes with 1"],
    "memory-budget-exceeded": ["unstuck budget · impossible", "the largest", "memory-budget-exceeded"],
}


@pytest.mark.parametrize("rule", SHOWN)
def test_the_folder_of_trials_is_judged_and_shown_as_its_command_did(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = evidence_of(rule)
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report_on(evidence)))

    code = main(["why", str(tmp_path)])

    said = capsys.readouterr().out
    assert code == FOUND
    assert [words for words in SHOWN[rule] if words not in said] == []
