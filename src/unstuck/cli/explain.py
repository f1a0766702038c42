"""Explain a rule or an error text: what it means, how to fix it, how to check it yourself, what else it may be.

    unstuck explain                                  list the rules
    unstuck explain worker-oom-killed
    unstuck explain "Bus error"
    unstuck explain - < traceback.txt                a pasted text or a whole log

Exit code 0: explained. 2: no rule has that name or text.
"""

from __future__ import annotations

import argparse
import difflib
import select
import sys

import msgspec
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from ..errors import UserError
from ..report import SCHEMA
from ..rules.discovery import all_rules, texts
from ..rules.pages import explaining, page, summary
from ..rules.rule import Rule
from ..views.console import console_for
from ..wording.language import word
from ..wording.printable import printable, printable_json

STDIN = "-"
MOST_READ = 4 << 20  # characters of a log
SOON = 0.5  # seconds in which a pipe has something to say
FEW = 8  # rules that may be behind one text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="*", metavar="RULE|TEXT", help="the name of a rule, or an error text; -: read the text from stdin"
    )
    parser.add_argument("--json", action="store_true", help="print the rules and their pages as JSON")


def run(arguments: argparse.Namespace) -> int:
    found, text = _asked_for(" ".join(arguments.what))
    if arguments.json:
        print(_as_json(found))
        return 0
    console = console_for(sys.stdout)
    if text is None and len(found) > 1:
        _show_list(sorted(found, key=lambda rule: (rule.explains.weight, rule.name)), console)
    elif len(found) == 1:
        console.print(Markdown(page(found[0])))
    else:
        _show_candidates(found[:FEW], console)
    return 0


def _asked_for(what: str) -> tuple[list[Rule], str | None]:
    """The rules, and the text that they are to explain, if it is not their name."""
    rules = all_rules()
    if what in rules:
        return [rules[what]], None
    text = what
    if what == STDIN or (not what and _is_piped()):
        text = sys.stdin.read(MOST_READ)
    if not text.strip():
        if what == STDIN:
            raise UserError("stdin is empty", "pass a text: unstuck explain - < log.txt")
        return list(rules.values()), None
    found = explaining(text)
    if found:
        return found, text
    near = difflib.get_close_matches(what, rules, n=1)
    shown = printable(text if len(text) <= 60 else f"{text[:60]}…")
    remedy = f"did you mean {near[0]}?" if near else "`unstuck explain` lists the rules; `unstuck run` judges a run"
    raise UserError(f"no rule has the name or the text {shown!r}", remedy)


def _is_piped() -> bool:
    """Something was piped in; an open pipe that says nothing is not waited for."""
    try:
        return not sys.stdin.isatty() and bool(select.select([sys.stdin], [], [], SOON)[0])
    except (OSError, ValueError, AttributeError):  # closed, or no file at all
        return False


def _show_list(rules: list[Rule], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for rule in rules:
        table.add_row(word(rule.explains.value), f"[bold]{rule.name}[/]", summary(rule))
    console.print(table)


def _show_candidates(rules: list[Rule], console: Console) -> None:
    console.print(word("This text may mean:"))
    _show_list(rules, console)
    console.print(word("`unstuck run` tells which one it is. To read about one: unstuck explain RULE"))


def _as_json(rules: list[Rule]) -> str:
    told = [
        {
            "rule": rule.name,
            "explains": rule.explains.value,
            "summary": summary(rule),
            "texts": list(texts(rule)),
            "page": page(rule),
        }
        for rule in rules
    ]
    return printable_json(
        msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, "rules": told}), indent=2).decode()
    )
