"""Finds the rules: every file of every family. Adding a rule edits no other file."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from .rule import Rule

HEADINGS = ("It means", "Fix", "Check it yourself", "Not this, if", "How sure")
THREADS = "Seen in"  # a last section, where others have told of it in public


@cache
def all_rules() -> dict[str, Rule]:
    """Rules by name. A file without a rule is a mistake and says so."""
    found: dict[str, Rule] = {}
    for path in sorted(Path(__file__).parent.glob("*/*.py")):
        if path.name.startswith("_"):  # the folder's own page, and what only this family shares
            continue
        module = import_module(f"{__package__}.{path.parent.name}.{path.stem}")
        check = getattr(module, "check", None)
        if not isinstance(check, Rule):
            raise TypeError(f"{path} has no check declared with @rule")
        if check.name in found:
            raise TypeError(f"{path}: there are two rules named {check.name}")
        found[check.name] = check
    return found


def documentation(rule: Rule) -> str:
    """The rule's own words: its module's docstring."""
    module = import_module(rule.check.__module__)
    return (module.__doc__ or "").strip()


def texts(rule: Rule) -> tuple[str, ...]:
    """What stands on the screen, word for word, as people paste it into a search box."""
    found: tuple[str, ...] = getattr(import_module(rule.check.__module__), "TEXTS", ())
    return found
