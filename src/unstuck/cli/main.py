"""Parses the command line and calls the command's own file."""

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
from ..wording.language import word
from ..wording.printable import printable

COMMANDS = {
    "run": "run a command, record it, and say what went wrong",
    "why": "why is this run stuck, slow or dead: a pid, a run folder or a saved report",
    "doctor": "test a loader step by step: what fails first, and what limits its speed",
    "budget": "predict how much memory and /dev/shm a loader needs",
    "tune": "measure a loader and find its fastest num_workers, prefetch_factor and the like",
    "check": "read a dataset as training would, and report every bad file, sample and byte",
    "logs": "show or follow a run's text logs, by rank, level and pattern",
    "env": "print the variables that turn on recording for a whole shell",
    "explain": "explain a rule or an error text, and how to fix it",
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
        print(f"unstuck: {printable(redacted(str(error)))}", file=sys.stderr)
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
    from rich_argparse import RawDescriptionRichHelpFormatter as Formatter

    Formatter.text_markup = Formatter.help_markup = False  # `unstuck[ray]` is a name
    Formatter.group_name_formatter = _with_capital
    command = import_module(f".{words[0]}", __package__)
    parser = Parser(
        prog=f"unstuck {words[0]}",
        description=word((command.__doc__ or "").strip()),
        formatter_class=Formatter,
    )
    command.add_arguments(parser)
    for action in parser._actions:  # no other way to them, and they have been what they are since Python 2.7
        action.help = word(action.help) if action.help else action.help
    for group in parser._action_groups:
        group.title = word(group.title) if group.title else group.title
    code: int = command.run(parser.parse_args(words[1:]))
    return code


def _with_capital(title: str) -> str:
    return f"{title[:1].upper()}{title[1:]}"


def _overview() -> str:
    lines = [
        word(
            "unstuck tells why a PyTorch training run is stuck, slow, dead or silently wrong, and what to do about it."
        ),
        "",
        *(f"  unstuck {name:<8} {word(text)}" for name, text in COMMANDS.items()),
        "",
        word("Begin with `unstuck run -- python train.py`, or see it at work with `unstuck demo`."),
        word("`unstuck COMMAND --help` says more about each. UNSTUCK=0 switches everything off."),
    ]
    return "\n".join(lines)
