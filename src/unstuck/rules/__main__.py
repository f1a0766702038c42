"""Writes the rules' documentation: `python -m unstuck.rules FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from .discovery import all_rules, documentation
from .rule import Rule


def page(rule: Rule) -> str:
    """One rule's page: the same text that `unstuck explain` prints."""
    return f"# {rule.name}\n\n*{rule.explains.value}*\n\n{documentation(rule)}\n"


def index(rules: dict[str, Rule]) -> str:
    rows = [
        f"| [{name}]({name}.md) | {rule.explains.value} | {documentation(rule).splitlines()[0]} |"
        for name, rule in sorted(rules.items(), key=lambda item: (item[1].explains.weight, item[0]))
    ]
    return "\n".join(["# Rules", "", "| rule | the run is | because |", "|---|---|---|", *rows, ""])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rule in all_rules().items():
        (folder / f"{name}.md").write_text(page(rule))
    (folder / "README.md").write_text(index(all_rules()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
