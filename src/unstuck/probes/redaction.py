"""Takes secrets out of a command line before it is written anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = "[redacted]"
_WORD = r"(?:token|secret|passw(?:or)?d|(?:api|access|private|secret)[_-]?key|credentials?)"
_NAME = rf"(?:[\w.-]*[_.-])?{_WORD}(?:[_.-][\w.-]*)?"  # a whole word of a name: `hf_token`, not `tokenizer`
_ASSIGNED = re.compile(rf"^((?:-{{0,2}}|\+){_NAME}[=:])(.+)$", re.IGNORECASE | re.DOTALL)
_FLAG = re.compile(rf"^-{{1,2}}{_NAME}$", re.IGNORECASE)
_IN_URL = re.compile(r"(\w+://[^/\s:@]*:)[^@\s/]+(@)")


def redact(arguments: Sequence[str]) -> list[str]:
    """`--token X`, `key=X` and `https://user:X@host` lose their X."""
    clean: list[str] = []
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("-"):
            clean.append(HIDDEN)
        else:
            clean.append(_IN_URL.sub(rf"\1{HIDDEN}\2", _ASSIGNED.sub(rf"\1{HIDDEN}", argument)))
        hide_next = bool(_FLAG.match(argument))
    return clean
