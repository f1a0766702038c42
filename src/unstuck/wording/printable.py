"""Names and texts of others as they can be shown: nothing in them moves a cursor, ends a line or turns it round.

File names, exceptions, thread names, arguments and code may hold anything. An escape code would be obeyed by the
terminal, a line break would forge a line of ours, and a bidi character would show `gpj.exe` as `exe.jpg`. Letters of
all scripts and emoji stay.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Iterable

MOST = 300  # characters of a name: hostile ones may have millions
# Format characters that are part of what people write: they hold emoji, and letters of some scripts, together.
_JOINERS = "\u200d\u200c\ufe0f"
_ODD = re.compile(r"[^\x20-\x7e]")
_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


def printable(text: str) -> str:
    """One line of it: control, format and bidi characters are written as Python would write them."""
    return _ODD.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Several lines, each made printable: a traceback keeps its layout."""
    return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))


def shortened(name: str, most: int = MOST) -> str:
    """The same for a name that may be endless."""
    return printable(name) if len(name) <= most else f"{printable(name[:most])}…"


def printable_json(encoded: str) -> str:
    """A JSON document as a terminal can be given it. What it says stays the same: JSON has escapes of its own."""
    return _ODD.sub(lambda found: found[0] if found[0] == "\n" or _is_shown(found[0]) else _in_json(found[0]), encoded)


def quoted(text: str) -> str:
    """One word for a shell. bash writes what cannot be printed so."""
    if printable(text) == text:
        return shlex.quote(text)
    plain = "".join(chr(one) if 32 <= one < 127 and one not in b"'\\" else f"\\x{one:02x}" for one in _encoded(text))
    return f"$'{plain}'"


def quoted_line(words: Iterable[str]) -> str:
    """A whole command line."""
    return " ".join(map(quoted, words))


def _escaped(found: re.Match[str]) -> str:
    letter = found[0]
    return letter if _is_shown(letter) else letter.encode("unicode_escape", "surrogatepass").decode()


def _is_shown(letter: str) -> bool:
    return letter in _JOINERS or unicodedata.category(letter) not in _UNSHOWN


def _in_json(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2))


def _encoded(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:  # a lone surrogate that is no byte of a name
        return text.encode("utf-8", "replace")
