"""The fixed words of what a person reads, in the reader's language: `UNSTUCK_LANG=zh`, or the locale.

A language is a table from English to its own words. What it does not have stays English. A key may hold fields in
braces, `{command} is done`: it then fits every sentence of that shape, and its translation uses the same fields.
`{count}`, `{number}`, `{time}`, `{size}` and `{share}` fit what their names say; any other field fits any text.
"""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import import_module

LANGUAGES = ("en", "zh")
VARIABLES = ("UNSTUCK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts
FIELD = re.compile(r"\{(\w+)\}")
FITS = {
    "count": r"[0-9,]+",
    "number": r"[0-9.,e+-]+",
    "time": r"[0-9?][0-9.e+]* [a-zµ]+(?: [0-9]+ [a-z]+)?",
    "size": r"[0-9.]+ [KMGT]?i?B",
    "share": r"[0-9.e-]+ %",
}


def language() -> str:
    chosen = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), "")
    code = re.split(r"[_.\-@]", chosen)[0].lower()
    return code if code in LANGUAGES else "en"


def word(text: str) -> str:
    """The same in the reader's language, as far as its table has it."""
    code = language()
    if code == "en":
        return text
    table, shapes = _table(code)
    found = table.get(text)
    if found is not None:
        return found
    for shape, translation in shapes:
        met = shape.fullmatch(text)
        if met is not None:
            return translation.format_map(met.groupdict())
    return text


@cache
def _table(code: str) -> tuple[dict[str, str], list[tuple[re.Pattern[str], str]]]:
    """Whole texts, and shapes of sentences."""
    words: dict[str, str] = import_module(f"{__package__}.{code}").WORDS
    shapes = [(_shape(english), own) for english, own in words.items() if FIELD.search(english)]
    return {english: own for english, own in words.items() if not FIELD.search(english)}, shapes


def _shape(english: str) -> re.Pattern[str]:
    parts = FIELD.split(english)
    return re.compile("".join(re.escape(part) if at % 2 == 0 else _field(part) for at, part in enumerate(parts)))


def _field(name: str) -> str:
    return rf"(?P<{name}>{FITS.get(name, '.+?')})"
