"""What manifests say of files, in the forms that people really have.

JSON of any kind, with lists and mappings of records; checksums as `sha256sum` writes them; tables with a header; plain
lists of paths.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Any

from ...evidence.data import Listed

# In this order: wids records may carry the data set's `name` beside the shard's `url`.
NAMES = (
    "url", "path", "file", "filename", "file_name", "filepath", "file_path", "basename", "shard_path", "shard_file",
    "shard_filename", "tar_path", "tar_file", "tarfile", "tar", "uri", "location", "shard_name", "shard", "name", "key",
)  # fmt: skip
COUNTS = (
    "samples", "num_samples", "nsamples", "n_samples", "sample_count", "num_sequences", "num_chunks", "count",
    "num_examples", "examples", "n_examples", "num_rows", "rows", "row_count", "num_records", "records", "length",
    "chunk_size",
)  # fmt: skip
SIZES = ("bytes", "size", "filesize", "file_size", "size_bytes", "size_in_bytes")
TOTALS = (
    "total_samples", "num_samples", "nsamples", "n_samples", "total_num_samples", "samples", "total_examples",
    "num_examples", "total_sequences", "total_rows", "num_rows", "total_count",
)  # fmt: skip
LENGTHS = {8: "crc32", 32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
DIGESTS = ("sha256", "sha512", "sha1", "md5", "crc32")  # the one that says most first
UNNAMED = ("checksum", "hash", "digest")
WORDS = ("", "sum", "_hash", "_checksum")
WORDED = {*UNNAMED, *(f"{name}{ending}" for name in DIGESTS for ending in WORDS)}
# What is not about the files that are trained on: where HF datasets came from, settings, hashes by algorithm.
ASIDE = ("download_checksums", "config", "columns", "features", "hashes", "metadata")
BASES = ("base_path", "base")
ENDING = re.compile(
    r"\.(tar|tgz|parquet|arrow|feather|jsonl|ndjson|json|npy|npz|safetensors|mds|bin|tfrecords?|h5|hdf5|zip|pt|pth|txt"
    r"|csv|jpe?g|png|webp)(\.(gz|zst|zstd|bz2|xz|lz4|br|snappy))?$",
    re.IGNORECASE,
)
NUMBERED = re.compile(r"(.*[-_./])?\d{2,}(\.\w{1,10})?|.*\.\w{2,10}")
JSON = re.compile(r'\s*(\{\s*["}]|\[\s*["{\[\]])')  # how it begins; a range of files begins with a brace, too
DEEPEST = 8  # levels of a document
MOST = 10_000_000  # files: more is no manifest that one process reads
SUM = re.compile(r"(\\?)([0-9a-fA-F]{8,128})[ \t]+\*?(.+)")
BSD_SUM = re.compile(r"(?:MD5|SHA\d+) \((.+)\) = ([0-9a-fA-F]{32,128})")
COUNTED = re.compile(r"(.+?)[\t ,]+(\d{1,18})")
ADDRESS = re.compile(r"[\w+-]+://\S+|\S*/\S+|\S+\.\w+")
LONGEST_LINE = 4096  # characters of a line that is looked at closely: a path has no more
ESCAPED = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}  # as sha256sum writes them in a name


def entries(node: Any, called: str = "", depth: int = 0) -> list[Listed]:
    """Every file that is spoken of, by the name that stands there."""
    if depth > DEEPEST:
        return []
    if isinstance(node, list):
        return _in_list(node, called, depth)
    return _in_mapping(node, called, depth) if isinstance(node, dict) else []


def total(document: Any) -> int | None:
    """How many samples there are in all, where the document says so at its top."""
    if not isinstance(document, dict):
        return None
    return next((found for name in TOTALS if (found := whole(document.get(name))) is not None), None)


def record(node: dict[str, Any]) -> Listed | None:
    """A mapping that speaks of one file. With an offset it is a part of one."""
    if "offset" in node:
        return None
    facts = _facts(node)
    for key in NAMES:
        name = node.get(key)
        if isinstance(name, str) and (is_file(name) or (facts and _is_shard(name, key))):
            return Listed(name, **facts)
    return None


def _in_list(node: list[Any], called: str, depth: int) -> list[Listed]:
    if node and all(isinstance(name, str) for name in node):
        return [Listed(name) for name in node if is_file(name)]
    found = []
    for item in node[:MOST]:
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and whole(item[1]) is not None:
            found.append(Listed(item[0], samples=whole(item[1])))
        else:
            found += entries(item, called, depth + 1)
    return found


def _in_mapping(node: dict[str, Any], called: str, depth: int) -> list[Listed]:
    if isinstance(node.get("raw_data"), dict):
        return _streaming(node)
    if isinstance(node.get("weight_map"), dict):
        return [Listed(name) for name in dict.fromkeys(node["weight_map"].values()) if isinstance(name, str)]
    if node and all(is_file(key) or _is_shard_key(key, called) for key in node):
        return [entry for key, value in node.items() if (entry := _said_of_key(key, value, called)) is not None]
    found = _parallel(node) if any(isinstance(value, list) for value in node.values()) else []
    for key, value in {} if found else node.items():
        if isinstance(value, (list, dict)) and key not in ASIDE:
            found += entries(value, key, depth + 1)
    if found:
        return _based(node, found)
    entry = record(node)
    return [entry] if entry is not None and (depth or is_file(entry.path)) else []


def _is_shard_key(key: str, called: str) -> bool:
    return "shard" in called and key.replace("-", "").replace("_", "").isalnum() and any(map(str.isdigit, key))


def _said_of_key(name: str, value: Any, called: str) -> Listed | None:
    """`name: 1000`, `name: "d41d8cd9…"`, `name: {"samples": 1000}`."""
    if isinstance(value, dict):
        return Listed(name, **_facts(value)) if "offset" not in value else None
    if whole(value) is None:
        return Listed(name, digest=digest(value))
    about = called.lower()
    return Listed(name, size=whole(value)) if "byte" in about or "size" in about else Listed(name, samples=whole(value))


def _streaming(node: dict[str, Any]) -> list[Listed]:
    """A shard of MosaicML's index: as it is, and compressed. Which of them is stored, `places` finds out."""
    found = [shard for shard in (node["raw_data"], node.get("zip_data")) if isinstance(shard, dict)]
    samples = whole(node.get("samples"))
    said = [(shard.get("basename"), {**_facts(shard), **_facts(shard.get("hashes") or {})}) for shard in found]
    return [Listed(name, **{**facts, "samples": samples}) for name, facts in said if isinstance(name, str)]


def _parallel(node: dict[str, Any]) -> list[Listed]:
    """Names in one list, numbers in another of the same length, as timm's `_info.json` has them."""
    names: list[str] = next((value for key, value in node.items() if key not in ASIDE and _all_files(value)), [])
    counts = next((value for key, value in node.items() if _numbers(key, value, len(names))), None) if names else None
    return [Listed(name, samples=whole(count)) for name, count in zip(names, counts, strict=True)] if counts else []


def _all_files(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) and is_file(name) for name in value)


def _numbers(key: str, value: Any, length: int) -> bool:
    about = ("length", "count", "samples", "examples", "rows")
    fits = isinstance(value, list) and len(value) == length and all(whole(number) is not None for number in value)
    return fits and any(word in key.lower() for word in about)


def _based(node: dict[str, Any], found: list[Listed]) -> list[Listed]:
    base = next((text for key in BASES if isinstance(text := node.get(key), str) and text), "").rstrip("/")
    if not base:
        return found
    return [
        entry if entry.path.startswith("/") or "://" in entry.path
        else Listed(f"{base}/{entry.path}", entry.size, entry.samples, entry.digest)
        for entry in found
    ]  # fmt: skip


def _facts(node: dict[str, Any]) -> dict[str, Any]:
    """Size, samples and digest, as far as they are there."""
    facts: dict[str, Any] = {}
    for field, names in (("samples", COUNTS), ("size", SIZES)):
        found = next((number for name in names if (number := whole(node.get(name))) is not None), None)
        if found is not None:
            facts[field] = found
    if WORDED.isdisjoint(node):
        return facts
    known = next((text for name in DIGESTS if (text := digest(_given(node, name), name))), "")
    known = known or next((text for name in UNNAMED if (text := digest(node.get(name)))), "")
    return {**facts, "digest": known} if known else facts


def _given(node: dict[str, Any], name: str) -> Any:
    return next((node[key] for key in (f"{name}{ending}" for ending in WORDS) if key in node), None)


def digest(value: Any, algorithm: str = "") -> str:
    """`sha256:…` of a hexadecimal number, by its length where nothing else says what it is; empty of anything else."""
    if algorithm == "crc32" and isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32:
        return f"crc32:{value:08x}"
    if not isinstance(value, str):
        return ""
    before, _, text = value.strip().lower().rpartition(":")
    if not text.isascii() or not all(digit in "0123456789abcdef" for digit in text):
        return ""
    meant = LENGTHS.get(len(text), "")
    return f"{meant}:{text}" if meant and algorithm in ("", meant) and before in ("", meant) else ""


def whole(value: Any) -> int | None:
    """A number of things; some write them as text."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 19:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def is_file(name: str) -> bool:
    """Named like data."""
    return len(name) < 4096 and "\n" not in name and ENDING.search(name) is not None


def _is_shard(name: str, key: str) -> bool:
    """Named without its ending. `train` and `cifar10`, of which samples are counted as well, are no files."""
    return bool(name.strip()) and "\n" not in name and ("shard" in key or NUMBERED.fullmatch(name) is not None)


def of_sums(lines: list[str]) -> list[Listed] | None:
    """None: these are no checksums."""
    found = [_sum(line) for line in lines if line.strip() and not line.startswith("#")]
    return [entry for entry in found if entry is not None] if found and all(found) else None


def _sum(line: str) -> Listed | None:
    match = BSD_SUM.fullmatch(line)
    if match is not None:
        name, text, escaped = match[1], match[2], ""
    else:
        match = SUM.fullmatch(line)
        if match is None:
            return None
        escaped, text, name = match[1], match[2], match[3]
    if len(text) not in LENGTHS:
        return None
    name = re.sub(r"\\[\\nr]", lambda escape: ESCAPED[escape[0]], name) if escaped else name
    return Listed(name, digest=f"{LENGTHS[len(text)]}:{text.lower()}")


def of_table(lines: list[str]) -> list[Listed] | None:
    """With a header that names a column of files and another of what is said of them. None: there is no such."""
    filled = [line for line in lines if line.strip()]
    between = next((mark for mark in "\t,;" if filled and mark in filled[0]), "")
    if not between:
        return None
    rows = csv.reader(filled, delimiter=between)
    header = [name.strip().lower() for name in next(rows)]
    if not any(name in header for name in NAMES) or is_file(filled[0].split(between)[0]):
        return None
    found = [record(dict(zip(header, row, strict=False))) for row in rows]
    return [entry for entry in found if entry is not None]


def of_list(lines: list[str]) -> list[Listed] | None:
    """Paths, one a line, each with a number behind it or without. None: a line is none."""
    found = [_named(line.strip()) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return [entry for entry in found if entry is not None] if found and all(found) else None


def _named(line: str) -> Listed | None:
    match = COUNTED.fullmatch(line) if len(line) < LONGEST_LINE else None
    if match is not None and is_file(match[1]):
        return Listed(match[1], samples=int(match[2]))
    return Listed(line) if is_file(piped(line)) else None


def piped(name: str) -> str:
    """What webdataset would read through a command: `pipe:aws s3 cp s3://…/000.tar -`."""
    if not name.startswith("pipe:") or len(name) >= LONGEST_LINE:
        return name.removeprefix("file:") if not name.startswith("file://") else name
    words = [word for word in ADDRESS.findall(name.removeprefix("pipe:")) if is_file(word)]
    return words[0] if words else name


def of_json(lines: Iterator[str]) -> Iterator[list[Listed]]:
    """What each line says. Raises ValueError."""
    for line in lines:
        if line.strip():
            yield _said_in_line(json.loads(line))


def _said_in_line(node: Any) -> list[Listed]:
    entry = record(node) if isinstance(node, dict) else None
    return [entry] if entry is not None else entries(node, depth=1)
