"""Writes the pages of the rules, and of errors by their text: `python -m unstuck.rules docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from .discovery import all_rules
from .pages import errors, index, page


def main(folder: Path) -> None:
    rules = folder / "rules"
    rules.mkdir(parents=True, exist_ok=True)
    for name, rule in all_rules().items():
        (rules / f"{name}.md").write_text(page(rule))
    (rules / "README.md").write_text(index(all_rules()))
    (folder / "errors.md").write_text(errors(all_rules()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
