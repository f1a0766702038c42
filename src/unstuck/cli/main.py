"""Parses the command line and hands over to the command's own file."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from .. import __version__
from ..errors import UserError
from ..inside.redaction import redacted
from ..wording.printable import printable, printable_lines

COMMANDS = {
    "run": "run a command, record it, and say what went wrong",
    "why": "say why a run is stuck, slow or dead: a pid, a run folder or a saved report",
    "doctor": "try a loader rung by rung, and say what fails and what its limit is",
    "budget": "predict a loader's memory and /dev/shm before it runs",
    "tune": "find num_workers, prefetch_factor and the like for a loader, by measuring few settings",
    "check": "read a data set as training would, and say which file, sample and byte is bad",
    "logs": "show or follow a run's text logs, by rank, level and pattern",
    "env": "print the variables that switch recording on for a whole shell",
    "explain": "what a rule looks at, why it happens, what to do",
    "demo": "run a small broken training and show the verdict",
}
FOUND, COULD_NOT_LOOK = 1, 2


class Parser(argparse.ArgumentParser):
    """Errors as one line that says what to do."""

    def error(self, message: str) -> NoReturn:
        print(f"unstuck: {printable(redacted(message))}; see `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(COULD_NOT_LOOK)


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal or a pipe without UTF-8 shows what it cannot by its number
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(words)
    except UserError as error:
        print(f"unstuck: {printable_lines(redacted(str(error)))}", file=sys.stderr)
        return COULD_NOT_LOOK
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0 if words else COULD_NOT_LOOK
    if words[0] in ("-V", "--version"):
        print(f"unstuck {__version__}")
        return 0
    if words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise UserError(f"there is no command {words[0]!r}", f"the commands are {known}; see `unstuck --help`")
    from rich_argparse import RawDescriptionRichHelpFormatter

    command = import_module(f".{words[0]}", __package__)
    parser = Parser(
        prog=f"unstuck {words[0]}", description=command.__doc__, formatter_class=RawDescriptionRichHelpFormatter
    )
    command.add_arguments(parser)
    code: int = command.run(parser.parse_args(words[1:]))
    return code


def _overview() -> str:
    lines = [
        "unstuck tells why a PyTorch training run is stuck, slow, dead or silently wrong, and what to do about it.",
        "",
        *(f"  unstuck {name:<8} {text}" for name, text in COMMANDS.items()),
        "",
        "Begin with `unstuck run -- python train.py`, or see it at work with `unstuck demo`.",
        "`unstuck COMMAND --help` says more about each. UNSTUCK=0 switches everything off.",
    ]
    return "\n".join(lines)
