"""Files that we write where the user says: whole or not at all, and never over what is not ours."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from ..errors import UserError
from . import source

HEAD = 64  # bytes by which our own files are known


def may_write(path: str, ours: Callable[[bytes], bool], what: str, *, replace: bool) -> None:
    """Raises UserError where nothing can be written, or something stands that we did not write."""
    try:
        if not source.is_address(path):
            tempfile.TemporaryFile(dir=_folder(path)).close()
        known = source.look(path)
        if known.other:
            raise UserError(f"{path} is {known.other}", "choose another name")
        if replace or not known.size:
            return
        with source.opened(path) as file:
            head = file.read(HEAD)
    except FileNotFoundError as error:
        if source.is_address(path) or os.path.isdir(_folder(path)):
            return
        raise unwritable(path, error) from None
    except OSError as error:
        raise unwritable(path, error) from None
    if not ours(head):
        raise UserError(f"{path} is there already and is no {what}", "choose another name, or --replace")


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of another when it is complete. Raises UserError where it cannot be written."""
    folder = None if source.is_address(path) else _folder(path)
    try:
        file = tempfile.NamedTemporaryFile(dir=folder, prefix=".unstuck-", delete=False)  # noqa: SIM115
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        with file:
            yield file.file
        _put(file.name, path)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(file.name)


def _put(name: str, path: str) -> None:
    if source.is_address(path):
        system, inner = source.file_system(path)
        system.put_file(name, inner)
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)  # a temporary file is for its owner alone
    os.replace(name, path)


def unwritable(path: str, error: OSError) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return UserError(f"{path} cannot be written: {reason}", "choose another place")
