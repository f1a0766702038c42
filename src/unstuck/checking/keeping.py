"""What stays of a check on the disk: a line for each file as it is read, so that an interrupted check can go on."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec

from ..errors import UserError
from ..evidence.data import Asked
from ..inside.redaction import redacted
from ..inside.run_folder import mark
from ..retention import CHECK
from ..safe_files import PRIVATE_FOLDER
from ..wording.secrets import without_secrets
from . import source
from .messages import Read
from .noting import Wish

ASKED, JOURNAL, REPORT = "asked.json", "checked.jsonl", "report.json"
EVERY = 1.0  # seconds between two times that the journal is handed to the system
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Read)


class Journal:
    """`with Journal(folder) as journal: journal.add(read)`."""

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / JOURNAL, "ab")  # noqa: SIM115  (closed by __exit__)
        self._flushed = time.monotonic()

    def __enter__(self) -> Journal:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, read: Read) -> None:
        self._file.write(_encoder.encode(without_secrets(read)) + b"\n")
        if time.monotonic() - self._flushed > EVERY:
            self._file.flush()
            self._flushed = time.monotonic()


def begun(base: Path, asked: Asked, wish: Wish) -> Path:
    """A folder for a new check."""
    name = f"check-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        (base / name).mkdir(PRIVATE_FOLDER)
        mark(str(base / name), CHECK)
        (base / name / ASKED).write_bytes(msgspec.json.encode(without_secrets([asked, wish])))
    except OSError as error:
        raise UserError(f"{base} cannot be written to: {error.strerror}", "choose another folder: --run-dir") from error
    return base / name


def unfinished(base: Path, asked: Asked, wish: Wish) -> Path:
    """The newest check of the same that was interrupted. Raises UserError where there is none."""
    wanted = msgspec.json.encode(without_secrets([asked, wish]))
    found = [path.parent for path in base.glob(f"check-*/{ASKED}") if path.read_bytes() == wanted]
    found = [one for one in found if (one / JOURNAL).exists() and not (one / REPORT).exists()]
    if not found:
        raise UserError(
            f"no check of the same files and options was interrupted in {base}", "leave --resume out to begin anew"
        )
    return max(found, key=lambda one: (one / JOURNAL).stat().st_mtime)


def already(folder: Path, files: dict[str, int]) -> Iterator[Read]:
    """What was read before, of files that are the same now. The last line may be half of one."""
    kept = Counter(map(redacted, files))
    real = {redacted(path): path for path in files if kept[redacted(path)] == 1}  # the journal has no address's secrets
    with open(folder / JOURNAL, "rb") as lines:
        for line in lines:
            with suppress(msgspec.DecodeError):
                read = _decoder.decode(line)
                path = real.get(read.file.path, "")
                if path and not read.file.unread and _is_same(read, path):
                    yield Read(msgspec.structs.replace(read.file, path=path), read.digest, read.digests)


def _is_same(read: Read, path: str) -> bool:
    try:
        now = source.look(path)
    except OSError:
        return False
    return (now.size, now.modified) == (read.file.size, read.file.modified)
