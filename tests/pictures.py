"""Draws verdicts on kept evidence of real runs into docs/pictures: `python tests/pictures.py`."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
from rich.terminal_theme import MONOKAI

from kept import KEPT
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.evidence.finding import Finding
from unstuck.report import Report
from unstuck.views.console import PrintableConsole
from unstuck.views.terminal import show

HERE = Path(__file__).parent
FOLDER = HERE.parent / "docs" / "pictures"
WIDTH = 104
PICTURES = {  # which evidence, and the command that shows it
    "deadlock": ("ddp-uneven-batches/found", "unstuck run -- torchrun --nproc-per-node 2 train.py"),
    "oom": ("worker-oom-killed/found", "unstuck run -- python train.py"),
    "lock": ("fork-inherited-lock/found", "unstuck why 4242"),
}
# As rich writes it, without the font that it would load from elsewhere.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def report(kept: str) -> Report:
    evidence = msgspec.json.decode((KEPT / f"{kept}.json").read_bytes(), type=Evidence)
    return _as_a_user_has_it(report_on(evidence))


def _as_a_user_has_it(found: Report) -> Report:
    """Files by the name that a user's script has, with its line of code."""
    findings = [msgspec.structs.replace(finding, source=_source(finding)) for finding in found.findings]
    text = msgspec.json.encode(msgspec.structs.replace(found, evidence=None, findings=findings)).decode()
    for finding in found.findings:
        if finding.where is not None:
            text = text.replace(finding.where.file, "train.py").replace(
                finding.where.file.rpartition("/")[2], "train.py"
            )
    return msgspec.json.decode(text, type=Report)


def _source(finding: Finding) -> str:
    """Of the scenario that the evidence is of."""
    if finding.where is None:
        return ""
    name = finding.where.file.rpartition("/")[2]
    script = next((HERE.parent / "scenarios").rglob(name))
    return script.read_text().splitlines()[finding.where.line - 1].strip()


def picture(name: str) -> str:
    kept, command = PICTURES[name]
    console = PrintableConsole(
        file=io.StringIO(), record=True, width=WIDTH, highlight=False, emoji=False, force_terminal=True,
        color_system="truecolor",
    )  # fmt: skip
    console.print(f"$ {command}", style="dim")
    console.print()
    show(report(kept), console, "unstuck-runs/train-20261115-2331")
    return console.export_svg(title="", theme=MONOKAI, code_format=FORMAT, unique_id=name)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(picture(name))


if __name__ == "__main__":
    main()
