"""A whole data set: has its files read, and puts together what was seen.

What stays of a check on the disk is a journal, a line for each file as it is read: so an interrupted check can go on.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

import msgspec

from ..errors import UserError
from ..evidence.data import Asked, Data, DataFile, Fault, Folder, Listed, Manifest, Speed
from ..inside.core.run_folder import mark
from ..inside.redaction import redacted
from ..retention import CHECK
from ..safe_files import PRIVATE_FOLDER, append_private, write_private
from ..wording.secrets import without_secrets
from .check import Read
from .files import Found, file_stat
from .notes import Wish
from .workers import Task

INTERRUPTED = "it was interrupted"
ENOUGH = 32 << 20  # bytes of a task: some tenths of a second, so that nobody is idle at the end for long
FILES = 500  # of a task: opening costs more than reading, for small ones
# Formats of which one file is one sample: there may be millions. Named here, because whoever has files read loads no
# format itself.
SINGLE = ("image", "npy", "json", "text")
COLD, WARM = 0.1, 0.9  # shares of a file that were in memory before it was read
LONG = 1 << 20  # bytes of files whose speed counts: of small ones, opening them is what takes time
ASKED, JOURNAL, REPORT = "asked.json", "checked.jsonl", "report.json"
EVERY = 1.0  # seconds between two times that the journal is handed to the system
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Read)


class Readers(Protocol):
    """Processes of this machine, or of a cluster; leaving it ends them."""

    @property
    def processes(self) -> int: ...
    def __enter__(self) -> Readers: ...  # noqa: PYI034
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def read(self, tasks: Iterable[Task], moved: Callable[[int], None]) -> Iterator[Read]: ...


class Watcher(Protocol):
    """Whoever shows how far it is."""

    def begins(self) -> None: ...
    def moved(self, count: int) -> None: ...
    def ended(self, file: DataFile) -> None: ...


class Plan(NamedTuple):
    """What is to be read, and how."""

    asked: Asked
    wish: Wish
    found: Found
    folder: Path
    manifest: Manifest | None = None
    listed: dict[str, Listed] = {}  # noqa: RUF012  (never changed)
    expected: Mapping[str, bytes] = {}
    resumed: bool = False

    @property
    def whole(self) -> set[str]:
        """Files that are read from their first byte to their last."""
        return _chosen(self.found.files, self.asked.sample)

    @property
    def size(self) -> int:
        """Bytes of these."""
        return sum(self.found.files[path] for path in self.whole)


def check(plan: Plan, readers: Readers, watcher: Watcher, keep: Callable[[Read], None]) -> Data:
    """Reads on until all is read, or somebody interrupts: then it says so, and what it has is worth something."""
    began, stopped = time.monotonic(), ""
    collection = _Collection(plan.listed)
    for name in plan.found.odd:
        collection.add(Read(DataFile(name, unread="its name is not UTF-8, and cannot be passed on")))
    try:
        for read in _read_all(plan, readers, watcher):
            keep(read)
            watcher.ended(collection.add(read))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return Data(
        plan.asked,
        files=collection.sorted(),
        folders=collection.folders(),
        absent=plan.found.absent,
        manifest=plan.manifest,
        speeds=collection.speeds(),
        seconds=time.monotonic() - began,
        processes=readers.processes,
        stopped=stopped,
    )


def _read_all(plan: Plan, readers: Readers, watcher: Watcher) -> Iterator[Read]:
    """What was read before the check was interrupted, then the rest."""
    left = dict(plan.found.files)
    for read in _read_before(plan.folder, left) if plan.resumed else ():
        watcher.moved(left.pop(read.file.path))
        yield read
    with ExitStack() as stack:
        journal = stack.enter_context(_Journal(plan.folder))
        stack.enter_context(readers)
        watcher.begins()
        for read in readers.read(tasks(left, plan.whole, plan.wish, plan.expected), watcher.moved):
            journal.add(read)
            yield read


def _chosen(files: Mapping[str, int], share: float | None) -> set[str]:
    """The files that are read whole: all, or such a share of them, at least one, the same ones every time."""
    if share is None:
        return set(files)
    count = max(round(len(files) * share), 1)
    return set(random.Random(0).sample(sorted(files), min(count, len(files))))  # noqa: S311


def tasks(files: Mapping[str, int], whole: set[str], wish: Wish, expected: Mapping[str, bytes]) -> Iterator[Task]:
    """In the order of the files, so that a disk is read forwards."""
    for look in (wish, msgspec.structs.replace(wish, whole=False)):
        paths: list[str] = []
        size = 0
        for path, bytes_ in files.items():
            if (path in whole) != look.whole:
                continue
            paths.append(path)
            size += bytes_ if look.whole else 0
            if size >= ENOUGH or len(paths) >= FILES:
                yield _task(paths, look, expected)
                paths, size = [], 0
        if paths:
            yield _task(paths, look, expected)


def _task(paths: list[str], wish: Wish, expected: Mapping[str, bytes]) -> Task:
    return Task(paths, wish, {path: expected[path] for path in paths if path in expected})


class _Collection:
    """Everything that was read so far."""

    def __init__(self, listed: dict[str, Listed]) -> None:
        self.files: list[DataFile] = []
        self._listed = listed
        self._folders: dict[tuple[str, str], list[int]] = {}
        self._speeds: dict[str, list[float]] = {}

    def add(self, read: Read) -> DataFile:
        file = self._compared(read)
        if file.read >= LONG and file.reading:
            kind = _cache_state(file.cached)
            own = self._speeds.setdefault(kind, [0, 0, 0.0])
            own[0], own[1], own[2] = own[0] + 1, own[1] + file.read, own[2] + file.reading
        if file.format in SINGLE and not file.faults and not file.unread:
            own_folder = self._folders.setdefault((os.path.dirname(file.path), file.format), [0, 0])
            own_folder[0] += 1
            own_folder[1] += file.size
        else:
            self.files.append(file)
        return file

    def _compared(self, read: Read) -> DataFile:
        """With what a manifest says of the whole of it, where nothing else is known to be wrong."""
        listed = self._listed.get(read.file.path)
        if listed is None or not listed.digest or not read.digest or read.file.faults:
            return read.file
        if listed.digest.lower() == read.digest:
            return read.file
        name, _, there = listed.digest.partition(":")
        what = f"its {name} is {read.digest.partition(':')[2]}, and the manifest has {there}: it was altered since"
        return msgspec.structs.replace(
            read.file, faults=[*read.file.faults, Fault("manifest", what)], counts={**read.file.counts, "manifest": 1}
        )

    def folders(self) -> list[Folder]:
        return [Folder(path, kind, count, size) for (path, kind), (count, size) in sorted(self._folders.items())]

    def speeds(self) -> list[Speed]:
        return [Speed(kind, int(n), int(size), took) for kind, (n, size, took) in sorted(self._speeds.items())]

    def sorted(self) -> list[DataFile]:
        return sorted(self.files, key=lambda file: file.path)


def _cache_state(cached: float | None) -> str:
    if cached is None:
        return "unknown"
    return "cold" if cached <= COLD else "warm" if cached >= WARM else "mixed"


def new_check_folder(base: Path, asked: Asked, wish: Wish) -> Path:
    """A folder for a new check."""
    name = f"check-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        (base / name).mkdir(PRIVATE_FOLDER)
        mark(str(base / name), CHECK)
        write_private(base / name / ASKED, msgspec.json.encode(without_secrets([asked, wish])))
    except OSError as error:
        raise UserError(f"{base} cannot be written to: {error.strerror}", "choose another folder: --run-dir") from error
    return base / name


def unfinished_check_folder(base: Path, asked: Asked, wish: Wish) -> Path:
    """The newest check of the same that was interrupted. Raises UserError where there is none."""
    wanted = msgspec.json.encode(without_secrets([asked, wish]))
    found = [path.parent for path in base.glob(f"check-*/{ASKED}") if path.read_bytes() == wanted]
    found = [folder for folder in found if (folder / JOURNAL).exists() and not (folder / REPORT).exists()]
    if not found:
        raise UserError(
            f"no check of the same files and options was interrupted in {base}", "leave --resume out to begin anew"
        )
    return max(found, key=lambda folder: (folder / JOURNAL).stat().st_mtime)


def _read_before(folder: Path, files: dict[str, int]) -> Iterator[Read]:
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
        now = file_stat(path)
    except OSError:
        return False
    return (now.size, now.modified) == (read.file.size, read.file.modified)


class _Journal:
    """What was read, on the disk: `with _Journal(folder) as journal: journal.add(read)`."""

    def __init__(self, folder: Path) -> None:
        self._file = os.fdopen(append_private(folder / JOURNAL), "ab")
        self._flushed = time.monotonic()

    def __enter__(self) -> _Journal:  # noqa: PYI034
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
