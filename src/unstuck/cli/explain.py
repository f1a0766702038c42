"""What a rule looks at, why it happens, what to do, how sure it is. Without a name: the list of all rules.

unstuck explain
unstuck explain worker-oom-killed
"""

from __future__ import annotations

import argparse
import difflib
import sys

from rich.markdown import Markdown
from rich.table import Table

from ..errors import UserError
from ..rules.discovery import all_rules, documentation
from ..views.console import console_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", nargs="?", metavar="RULE", help="a rule's name, as a verdict prints it")


def run(arguments: argparse.Namespace) -> int:
    rules = all_rules()
    console = console_for(sys.stdout)
    if arguments.rule is None:
        table = Table.grid(padding=(0, 2))
        for name, rule in sorted(rules.items(), key=lambda item: (item[1].explains.weight, item[0])):
            table.add_row(rule.explains.value, f"[bold]{name}[/]", documentation(rule).splitlines()[0])
        console.print(table)
        return 0
    if arguments.rule not in rules:
        near = difflib.get_close_matches(arguments.rule, rules, n=1)
        remedy = f"did you mean {near[0]}?" if near else "`unstuck explain` lists them"
        raise UserError(f"there is no rule {arguments.rule!r}", remedy)
    rule = rules[arguments.rule]
    console.print(Markdown(f"# {arguments.rule}\n\n{documentation(rule)}"))
    return 0
