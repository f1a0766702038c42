"""What reading a data set showed, file by file. Bytes and seconds."""

from __future__ import annotations

import msgspec

NO_END = "tar-no-end"  # a fault that is none where the writer never marks an end


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong with a file. `kind` is what rules ask for; the words say what was seen, with numbers.

    Of any file: empty (no bytes), foreign (something else in its place), unreadable (the system refuses to read on),
    reader-died, hostile (a bomb, a path that leads outside, control characters in a name), cut (it ends before what it
    announces), damaged (it contradicts itself, or a checksum), no-rows (a container of nothing), zeros (where no data
    has any), undecodable (one sample of it), image (one image of it cannot be decoded), manifest (not what it has).
    Of a tar archive: tar-cut-data, tar-cut-header, tar-no-end (nothing marks its end), tar-early-end (an end mark in
    its middle), tar-bad-header, tar-apart (parts of a sample that do not stand together), tar-duplicate.
    """

    kind: str
    what: str
    at: int | None = None  # offset of the first byte that is wrong; of a compressed file, in what it holds
    until: int | None = None  # where that ends
    member: str = ""  # of an archive; a column, an array
    sample: str = ""  # by which training would name it: a key, a row, a line
    row: int | None = None  # counted from 0; of JSON lines, the line counted from 1
    lost: int | None = None  # samples that training never sees, or cannot use, because of it


class Texts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of text."""

    column: str
    documents: int = 0
    nulls: int = 0
    blanks: int = 0  # empty, or nothing but white space
    characters: int = 0  # of all of them together


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """Samples of an archive that have the same parts."""

    parts: list[str]  # endings, in order of the alphabet
    samples: int
    first: str = ""  # the key of the first of them
    at: int | None = None  # where it begins
    keys: list[str] = []  # all of them, where they are few, and not most of the archive


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file, read to its end, or only looked at where `whole` is false."""

    path: str
    format: str = ""  # tar, parquet, jsonl, arrow, npy, npz, safetensors, image; empty: none that is known
    compression: str = ""  # gzip, zstd, bzip2, xz, lz4
    size: int = 0
    modified: float = 0.0
    whole: bool = True  # it was read from its first byte to its last; False: only its ends
    read: int = 0  # bytes
    seconds: float = 0.0
    reading: float = 0.0  # seconds of these in which the system was asked for bytes
    cached: float | None = None  # share of it that was in memory before it was read
    samples: int | None = None  # that training would get of it
    members: int | None = None  # files of an archive, arrays of a container
    row_groups: int | None = None
    tail: int = 0  # zeros at the end of an archive
    decoded: int = 0  # samples, or members, that were really decoded
    groups: list[Group] = []  # of samples, by the parts they have; the most frequent first
    columns: dict[str, str] = {}  # names and types
    texts: list[Texts] = []
    faults: list[Fault] = []  # the first of each kind
    counts: dict[str, int] = {}  # faults of each kind in all
    alike: str = ""  # a digest of some bytes of each member: copies have the same
    unread: str = ""  # why nothing is known of it: no permission, a library that is missing
    other: str = ""  # what it is, where it is no data: text, a pipe


class Folder(msgspec.Struct, frozen=True):
    """Files of one folder that hold one sample each, of which nothing needs to be said."""

    path: str
    format: str
    files: int
    size: int


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a manifest says of one file."""

    path: str
    size: int | None = None
    samples: int | None = None
    digest: str = ""  # algorithm:hex


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A list of files that somebody wrote when the data was made."""

    path: str
    files: list[Listed] = []
    samples: int | None = None  # in all, where it says so


class Speed(msgspec.Struct, frozen=True, omit_defaults=True):
    """How fast files came, by where they came from."""

    kind: str  # cold: from storage; warm: from memory; mixed, unknown
    files: int
    read: int
    seconds: float  # of waiting for the system, by all readers together


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user wanted to know."""

    paths: list[str]
    decode: bool = False
    sample: float | None = None  # share of the files that is read whole
    ranks: int | None = None
    workers: int | None = None
    batch_tokens: int | None = None


class Data(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data set as it was checked, or the files of it that a run had trouble with."""

    asked: Asked
    files: list[DataFile] = []
    folders: list[Folder] = []
    absent: list[str] = []  # that were named, or belong between others, and are not there
    manifest: Manifest | None = None
    speeds: list[Speed] = []
    seconds: float = 0.0
    processes: int = 1
    stopped: str = ""  # why it ended before it was through
    of_run: bool = False  # not a check that was asked for: files that a recorded run had trouble with
