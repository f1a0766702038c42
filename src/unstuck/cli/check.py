"""Read a dataset as training would, and report every bad file, sample and byte.

PATH is a file, a glob, a brace range, a folder, a manifest, or a URL that fsspec can open. Formats are recognised by
their content: tar and WebDataset shards, Parquet, Arrow, JSON lines, npy, npz, safetensors and images, also compressed.
Nothing is modified or unpacked.

  unstuck check 'shards/train-{000000..000127}.tar'
  unstuck check data/ --decode --ranks 8 --workers 4
  unstuck check data/ --write-manifest manifest.jsonl     later: --against manifest.jsonl
  unstuck check s3://bucket/shards/ --on ray

Exit code 0: no fault found. 1: faults found. 2: the data could not be checked.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..checking import quarantine
from ..checking.data_set import REPORT, Plan, Readers, check, new_check_folder, unfinished_check_folder
from ..checking.files import Found, find, head_of
from ..checking.manifests import ManifestWriter, is_manifest, matched, members, read
from ..checking.notes import ALGORITHMS, Wish
from ..checking.workers import Workers
from ..diagnose import report_on
from ..errors import UserError
from ..evidence import Evidence, Run
from ..evidence.data import Asked, Data, Listed, Manifest
from ..inside.redaction import redacted_arguments
from ..report import Report
from ..retention import CHECK, forget_aloud
from ..safe_files import write_private
from ..trials.cleanup import heard
from ..views.as_json import render
from ..views.checks import show_check
from ..views.console import console_for
from ..views.progress import Reading
from ..watching.fence import speak
from ..wording.language import word
from .arguments import add_view_arguments, count
from .target import exit_code

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="file, glob, brace range, folder, manifest or URL")
    add("--decode", action="store_true", help="also decode images, JSON, text and arrays inside archives")
    add(
        "--sample",
        type=share,
        metavar="N%",
        help="read this share of the files completely, of the others only both ends",
    )
    add("--ranks", type=some, metavar="N", help="check that there are enough shards and row groups for N ranks")
    add("--workers", type=some, metavar="M", help="with M workers in each rank")
    add("--batch-tokens", type=some, metavar="N", help="tokens per batch (B × T + 1): how many documents a batch takes")
    add(
        "--against",
        metavar="MANIFEST",
        help="compare with a manifest: unstuck's, an index, sha256sum's, counts, a list",
    )
    add("--write-manifest", metavar="FILE", help="write sizes, sample counts and checksums, for --against later")
    add("--quarantine", metavar="FILE", help="write the names of bad samples, and print filters for your loader")
    add("--resume", action="store_true", help="continue an interrupted check of the same files and options")
    add("--processes", type=some, metavar="N", help="reader processes (default: one per CPU core)")
    add("--on", metavar="ray[://ADDRESS]", help="read on a Ray cluster, started here if none runs; needs unstuck[ray]")
    add(
        "--run-dir",
        type=Path,
        default=Path("unstuck-runs"),
        metavar="DIR",
        help="folder for its report (default: unstuck-runs)",
    )
    add("--replace", action="store_true", help="let --write-manifest and --quarantine overwrite existing files")
    add("--json", action="store_true", help="print the report as JSON")
    add("--with-evidence", action="store_true", help="with --json: include the evidence")
    add_view_arguments(parser)


def some(text: str) -> int:
    if not count(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 1 or more")
    return count(text)


def share(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text)
    value = float(match[1]) / (100 if match[2] else 1) if match is not None else 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 5% or 0.05")
    return value


def run(arguments: argparse.Namespace) -> int:
    heard()
    if arguments.quarantine:
        quarantine.may_be_written(arguments.quarantine, replace=arguments.replace)
    plan = _plan(arguments)
    with ExitStack() as stack:
        manifest = _written(arguments, stack)
        reading = stack.enter_context(Reading(sys.stderr, len(plan.found.files), plan.size))
        data = check(plan, _readers(arguments, len(plan.found.files)), reading, manifest.add if manifest else _nothing)
        if data.stopped and manifest is not None:
            manifest.discard()
    report = _judged(data, plan.folder)
    if arguments.quarantine:
        quarantine.write(arguments.quarantine, data, replace=arguments.replace)
    _tell(report, arguments, plan.folder)
    return INTERRUPTED if data.stopped else exit_code(report)


class _Compared(NamedTuple):
    """With what the files are to be compared."""

    manifest: Manifest | None
    listed: dict[str, Listed]
    expected: Mapping[str, bytes]
    algorithm: str


def _plan(arguments: argparse.Namespace) -> Plan:
    found, against = _files(arguments)
    compared = _compared(against, found)
    write = bool(arguments.write_manifest)
    wish = Wish(
        decode=arguments.decode,
        digests=write or bool(compared.expected),
        algorithm=compared.algorithm or ("crc32" if write else ""),
    )
    asked = Asked(
        arguments.paths,
        decode=arguments.decode,
        sample=arguments.sample,
        ranks=arguments.ranks,
        workers=arguments.workers,
        batch_tokens=arguments.batch_tokens,
    )
    folder = (unfinished_check_folder if arguments.resume else new_check_folder)(arguments.run_dir, asked, wish)
    forget_aloud(arguments.run_dir, CHECK, folder, speak)
    return Plan(asked, wish, found, folder, compared.manifest, compared.listed, compared.expected, arguments.resume)


def _files(arguments: argparse.Namespace) -> tuple[Found, str | None]:
    """The files, and the manifest, which may be one of the paths: then it says which files."""
    lists = [path for path in arguments.paths if os.path.isfile(path) and is_manifest(path, head_of(path))]
    if not lists:
        return find(arguments.paths), arguments.against
    if len(lists) > 1 or arguments.against:
        raise UserError("there is more than one manifest", "check the files of one manifest at a time")
    others = [path for path in arguments.paths if path not in lists]
    listed = [one.path for one in read(lists[0]).files]
    return find([*others, *listed], exact=True), lists[0]


def _compared(path: str | None, found: Found) -> _Compared:
    if path is None:
        return _Compared(None, {}, {}, "")
    manifest = read(path)
    found.files.pop(path, None)
    listed = matched(manifest, found.files)
    if not listed:
        raise UserError(f"{path} lists none of the checked files", "name the manifest that belongs to these files")
    algorithms = {one.digest.partition(":")[0] for one in listed.values() if one.digest}
    known = sorted(algorithms & {*ALGORITHMS})
    return _Compared(manifest, listed, members(manifest, listed), known[0] if known else "")


def _readers(arguments: argparse.Namespace, files: int) -> Readers:
    if arguments.on is None:
        return Workers(min(arguments.processes or len(os.sched_getaffinity(0)), files))
    from ..checking.cluster import Cluster

    return Cluster(arguments.on)


def _written(arguments: argparse.Namespace, stack: ExitStack) -> ManifestWriter | None:
    if not arguments.write_manifest:
        return None
    return stack.enter_context(ManifestWriter(arguments.write_manifest, replace=arguments.replace))


def _nothing(_: object) -> None:
    """Nobody keeps digests."""


def _judged(data: Data, folder: Path) -> Report:
    command = redacted_arguments(["unstuck", *sys.argv[1:]])
    run = Run(id=folder.name, command=command, started=time.time(), host=os.uname().nodename)
    report = report_on(Evidence(run=run, data=data))
    if not data.stopped:
        write_private(folder / REPORT, msgspec.json.encode(report))
    return report


def _tell(report: Report, arguments: argparse.Namespace, folder: Path) -> None:
    if arguments.json:
        kept = None if report.data is not None and report.data.stopped else str(folder / REPORT)
        print(render(report if arguments.with_evidence else msgspec.structs.replace(report, evidence=kept)))
        return
    console = console_for(sys.stdout, plain=arguments.plain)
    show_check(report, console, verbose=arguments.verbose)
    if arguments.quarantine:
        webdataset, map_style = quarantine.webdataset_filter, quarantine.map_style_filter
        for name, code in (("webdataset", webdataset), ("a map-style dataset", map_style)):
            console.print(f"\n[bold]{word(f'filter for {name}')}[/bold]")
            console.print(code(arguments.quarantine).rstrip(), soft_wrap=True, markup=False)
