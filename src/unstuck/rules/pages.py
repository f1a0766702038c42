"""A rule's page, as `unstuck explain` prints it and docs/rules has it; the index of them; and errors by their texts."""

from __future__ import annotations

import re
from collections import defaultdict

from .discovery import all_rules, documentation, texts
from .rule import Rule

SILENT = "No error text: nothing on the screen says so."
SHORTEST = 6  # characters of a pasted text: fewer are in everything


def summary(rule: Rule) -> str:
    """The first line of its page."""
    return documentation(rule).splitlines()[0]


def page(rule: Rule) -> str:
    first, _, rest = documentation(rule).partition("\n")
    seen = "\n".join(["```text", *texts(rule), "```"]) if texts(rule) else SILENT
    return f"# {rule.name}\n\n*{rule.explains.value}*\n\n{first}\n\n## You see\n\n{seen}\n\n{rest.strip()}\n"


def index(rules: dict[str, Rule]) -> str:
    rows = [
        f"| [{name}]({name}.md) | {rule.explains.value} | {summary(rule)} |"
        for name, rule in sorted(rules.items(), key=lambda item: (item[1].explains.weight, item[0]))
    ]
    return "\n".join(["# Rules", "", "| rule | the run is | because |", "|---|---|---|", *rows, ""])


def errors(rules: dict[str, Rule]) -> str:
    """Every text that may stand on the screen, with the rules that explain it."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, rule in sorted(rules.items()):
        for text in texts(rule):
            found[text].append(f"[{name}](rules/{name}.md)")
    rows = [
        f"| `{text.replace('|', chr(92) + '|')}` | {', '.join(names)} |"
        for text, names in sorted(found.items(), key=lambda item: item[0].lower())
    ]
    head = [
        "# Errors by their text",
        "",
        'What stands on the screen, and what may be behind it. `unstuck explain "any error text"` looks here, too.',
        "",
        "| text | may be |",
        "|---|---|",
    ]
    return "\n".join([*head, *rows, ""])


def explaining(text: str) -> list[Rule]:
    """Rules whose texts are in this one, or which this one is a part of; the longest match first."""
    given, found = _plain(text), dict[str, int]()
    for name, rule in all_rules().items():
        for known in map(_plain, texts(rule)):
            if known in given or (len(given) >= SHORTEST and given in known):
                found[name] = max(found.get(name, 0), min(len(known), len(given)))
    rules = all_rules()
    return [rules[name] for name in sorted(found, key=lambda name: (-found[name], name))]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().lower()
