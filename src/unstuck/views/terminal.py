"""A report on the terminal. Alone: `python -m unstuck.views.terminal report.json`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from ..evidence.finding import Finding
from ..evidence.process import Step
from ..report import NOTHING, Activity, Report, Spent, StageTime
from ..wording.language import word
from ..wording.printable import printable
from ..wording.text import duration, kind_in_words, line, percent, size, slow_in_words
from ..wording.texts import every_text
from .block import headline, show_finding, show_hanging, show_ranks, show_row
from .console import PrintableConsole, console_for, printable_report

__all__ = ["STAGES", "START", "console_for", "finding_text", "show"]
START, STAGES = "start", "stages"  # sections that can be asked for
MOST_RULES = 4  # that are named; more would bury the rest
MOST_TIMES = 8  # rows: what comes after these is small
MOST_RANKS = 8  # rows of the table of ranks
STANDING = ("stuck", "waiting", "unknown")  # states in which it matters what each rank does
LOOPING = ("slow", "healthy")  # states in which it matters what the limit is
STARTING, DATA = "start-up", "data"  # answers to: what is the limit?
MOST_STAGES = 6  # stages: what comes after these is small


def finding_text(finding: Finding, width: int) -> str:
    """One finding as plain text."""
    out = io.StringIO()
    console = PrintableConsole(file=out, width=width, highlight=False, emoji=False, color_system=None)
    show_finding(every_text(finding, printable), [], console, verbose=True)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(
    report: Report, console: Console, folder: str = "", more: tuple[str, ...] = (), *, verbose: bool = False
) -> None:
    """`more`: sections that were asked for, start and stages. Else they are shown where they matter."""
    report, folder = printable_report(report), printable(folder)
    if _is_plain(report):
        _show_line(report, console, folder)
        _show_loading(report, console, more)
        return
    roots = [one for one in report.findings if one.role == "root"]
    ranks = _ranks(report)
    for number, finding in enumerate(roots):
        if number:
            console.print()
        show_finding(finding, report.findings, console, ranks=() if number else ranks, verbose=verbose)
    if not roots:
        _show_no_finding(report, console, ranks)
    _show_time(report, console)
    matter = [name for name, wanted in ((START, _wants_start), (STAGES, _wants_stages)) if wanted(report)]
    _show_loading(report, console, (*more, *matter))
    _show_footer(report, console, folder, roots, verbose=verbose)


def _is_plain(report: Report) -> bool:
    """Healthy, and nothing else to tell; or it ended well, and nothing of a training was seen in it."""
    live = any(one.live for one in report.activities) or any(one.going_on for one in report.start)
    more = report.findings or report.notes or report.spent or live
    healthy = report.state == "healthy" and not report.not_checked
    return not more and (healthy or _is_no_training(report))


def _is_no_training(report: Report) -> bool:
    return report.state == "unknown" and len(report.unsettled) == 1 and report.unsettled[0].startswith(NOTHING)


def _show_line(report: Report, console: Console, folder: str) -> None:
    """A run that is well deserves one line."""
    cost = "" if report.unsettled else _share_of_cost(report)
    parts = [*(one.rstrip(".") for one in report.unsettled), report.summary, report.framework, _limit(report), cost]
    text = " · ".join(one for one in (*parts, folder) if one)
    console.print(Text.assemble(headline(report.state), f"  {text}"), soft_wrap=True)


def _limit(report: Report) -> str:
    """What the limit of the run is, unless that cannot be told."""
    found = report.bottleneck
    return "" if found is None or found.answer == "unknown" else found.text.rstrip(".")


def _show_no_finding(report: Report, console: Console, ranks: list[tuple[str, str]]) -> None:
    if report.state == "healthy":
        lines = [word("Nothing found.")]
    else:
        lines = report.unsettled or [word("No rule has found a cause. That does not rule one out.")]
    show_hanging(Text.assemble(headline(report.state), "  "), Text(lines[0].rstrip("."), style="bold"), console, 0)
    for further in lines[1:]:
        show_hanging(Text(), Text(further), console)
    if ranks:
        show_ranks(ranks, console)


def _ranks(report: Report) -> list[tuple[str, str]]:
    """What each of them is doing at this moment."""
    live = [one for one in report.activities if one.live]
    rows = []
    for one in live[:MOST_RANKS]:
        whose = word("now") if one.rank is None else f"{word('rank')} {one.rank}"
        rows.append((whose, _activity(one, stuck=report.state in STANDING)))
    return rows + ([("", f"+ {len(live) - MOST_RANKS}")] if len(live) > MOST_RANKS else [])


def _show_loading(report: Report, console: Console, sections: tuple[str, ...]) -> None:
    if START in sections:
        _show_start(report, console)
    if STAGES in sections:
        _show_stages(report, console)


def _show_time(report: Report, console: Console) -> None:
    for number, one in enumerate(report.spent[:MOST_TIMES]):
        show_row("" if number else "time", Text(_spent(one)), console, percent(one.share))


def _spent(one: Spent) -> str:
    role = "workers" if one.role == "workers" else "main thread"
    whose = word(role if one.rank is None else f"{role} of rank {one.rank}")
    at = f" at {line(one.where)} ({one.where.function})" if one.where is not None else ""
    return f"{whose}: {one.what}{at}"


def _activity(one: Activity, *, stuck: bool) -> str:
    """waiting for data at train.py:12; 18 of 300 batches; in EPOCH 0 TRAINING, waiting for batch 19 of 300."""
    have = "" if one.have is None else f"; {one.have:,}{f' of {one.need:,}' if one.need else ''} {one.unit}".rstrip()
    have = f"; {one.between}" if stuck and one.between else have
    stalled = "" if one.moving or one.since_s < 1 else f"; {word(f'no progress for {duration(one.since_s)}')}"
    return f"{one.doing}{have}{stalled}"


def _rules(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_RULES else word(f"{len(names)} rules")


def _show_footer(report: Report, console: Console, folder: str, roots: list[Finding], *, verbose: bool) -> None:
    standing = report.state in STANDING
    if report.bottleneck is not None and _limit(report) and (verbose or report.state in LOOPING):
        show_row("limit", Text("; ".join([_limit(report), *report.bottleneck.seen])), console)
    if report.meaning and standing and (verbose or not roots):
        show_row("means", Text(report.meaning), console)
    for number, note in enumerate([*report.notes, *_not_checked(report)]):
        show_row("" if number else "note", Text(note, style="dim"), console)
    if report.framework and verbose:
        show_row("note", Text(report.framework), console)
    if roots:
        show_row("help", Text(f"unstuck explain {roots[0].rule}", style="cyan"), console)
    run = " · ".join(one for one in (folder, _cost(report) if verbose else _share_of_cost(report)) if one)
    if run:
        show_row("run", Text(run, style="dim"), console)


def _not_checked(report: Report) -> list[str]:
    return [f"{word('not checked')}: {_rules(one.rules)} ({word('needs')}: {one.needs})" for one in report.not_checked]


def _share_of_cost(report: Report) -> str:
    """What the recording took of the loop."""
    share = report.overhead.share_of_step
    return f"{word('recording cost')} {share * 100:.2g} %" if share else ""


def _cost(report: Report) -> str:
    overhead = report.overhead
    if not overhead.recorded_bytes:
        return ""
    share = word(f"{overhead.share_of_step * 100:.2g} % of the loop") if overhead.share_of_step else ""
    parts = [word(f"{duration(overhead.total_ms / 1e3)} of recording") + (f" ({share})" if share else "")]
    if overhead.per_step_us is not None:
        parts.append(word(f"{overhead.per_step_us:.3g} µs per step"))
    if overhead.per_sample_us is not None:
        parts.append(word(f"{overhead.per_sample_us:.3g} µs per sample"))
    parts.append(word(f"{size(overhead.recorded_bytes)} on disk"))
    return ", ".join(parts)


def _wants_start(report: Report) -> bool:
    """The first step is still to come, or the way to it took most of a run that went well."""
    starting = report.state in LOOPING and report.bottleneck is not None and report.bottleneck.answer == STARTING
    return starting or any(one.going_on for one in report.start)


def _wants_stages(report: Report) -> bool:
    """Data is the limit, and more is known of loading than that it takes time."""
    slow = report.bottleneck is not None and report.bottleneck.answer == DATA
    return slow and len({one.name for one in report.stages}) > 2


def _show_start(report: Report, console: Console) -> None:
    for number, one in enumerate(report.start):
        text = Text(_step(one, many=len({step.rank for step in report.start}) > 1))
        show_row("" if number else "start", text, console, duration(one.seconds))


def _show_stages(report: Report, console: Console) -> None:
    if not report.stages:
        return
    most = max(report.stages, key=lambda one: one.seconds)
    rows = [one for one in report.stages if (one.rank, one.loader) == (most.rank, most.loader)][:MOST_STAGES]
    for number, one in enumerate(rows):
        show_row("" if number else "load", Text(_stage(one)), console, percent(one.share))


def _stage(one: StageTime) -> str:
    """decode (Image.load): 12 ms each, p50 11 ms, p95 30 ms, at most 1.2 s; computing; slowest 7.jpg with 1.2 s."""
    times = [word(f"{duration(one.mean)} each")]
    times += [f"p50 {duration(one.p50)}"] if one.p50 else []
    times += [f"p95 {duration(one.p95)}"] if one.p95 else []
    times += [word(f"at most {duration(one.longest)}")] if one.longest else []
    parts = [", ".join(times), word(kind_in_words(word(one.kind), one.processor)) if one.kind else ""]
    parts += [word(f"slowest {slow_in_words(one.slowest[0])}")] if one.slowest and one.name != "process" else []
    return f"{one.name}: {'; '.join(part for part in parts if part)}"


def _step(one: Step, *, many: bool) -> str:
    whose = f"rank {one.rank}: " if many and one.rank is not None else ""
    going_on = f", {word('and goes on')}" if one.going_on else ""
    return f"{whose}{word(one.name)}{going_on}{f': {one.told}' if one.told else ''}"


if __name__ == "__main__":
    show(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), console_for(sys.stdout))
