"""How fast `unstuck check` reads, beside plain reading of the same files and beside what people use for the same job.

Shards and tables are made in a temporary folder (0.4 to 1.3 GB each; --quick a quarter); every file gets several names,
so that the start of our processes does not count for more than it would in a data set of some size. Every way reads the
same files, in turn, round after round; the best round of each counts. What is slow reads each file under one name only.
Everything is in memory then: that is the hardest comparison, since no disk hides what we do. With --cold (root) the
caches are dropped before each, and files are copied instead. "cores" is processor time by the time it took. Takes about
seven minutes; --quick two.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

PIECE = 1 << 20
ROUNDS = 4
NAMES = 6  # of each file
SLOW = ("webdataset", "json")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, three rounds")
    parser.add_argument("--cold", action="store_true", help="drop the caches before each reading (needs root)")
    parser.add_argument("--only", metavar="PART", help="data whose name has this in it")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


def write_shards(folder, shards, samples, size):
    """As webdataset writes them: an extended header for each member."""
    import numpy as np

    draw = np.random.default_rng(0)
    for number in range(shards):
        with tarfile.open(folder / f"s-{number:04d}.tar", "w") as archive:
            for sample in range(samples):
                caption = json.dumps({"caption": "a picture of something " * 8, "n": sample}).encode()
                image = b"\xff\xd8\xff\xe0" + draw.integers(1, 255, size, dtype=np.uint8).tobytes()
                for part, data in (("jpg", image), ("json", caption)):
                    info = tarfile.TarInfo(f"{number:04d}-{sample:06d}.{part}")
                    info.size, info.mtime = len(data), 1_700_000_000.5
                    archive.addfile(info, io.BytesIO(data))


def write_tables(folder, files, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number in range(files):
        texts = [base64.b64encode(os.urandom(750)).decode() for _ in range(rows)]
        table = pa.table({"text": texts, "id": range(rows), "score": [row / 7 for row in range(rows)]})
        pq.write_table(table, folder / f"t-{number:04d}.parquet", row_group_size=rows // 8)


def write_lines(folder, files, rows):
    for number in range(files):
        with open(folder / f"l-{number:04d}.jsonl", "w") as file:
            for row in range(rows):
                text = " ".join(f"word{(row * 7 + number + k * k) % 4000}" for k in range(60))
                file.write(json.dumps({"text": text, "id": row, "score": row / 7}) + "\n")


def plain(paths):
    buffer = bytearray(PIECE)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def ours(processes):
    from unstuck.checking.data_set import tasks
    from unstuck.checking.notes import Wish
    from unstuck.checking.workers import Workers

    def way(paths, *, whole=True):
        files = {str(path): path.stat().st_size for path in paths}
        with Workers(processes) as workers:
            found = list(workers.read(tasks(files, set(files), Wish(), {}), lambda _: None))
        assert len(found) == len(paths)
        assert not whole or not any(one.file.faults for one in found), "the benchmark's own data is called bad"

    return way


def plain_in(processes):
    """As many processes as ours has, and nothing but reading."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from check import plain; plain(sys.argv[2:])"

    def way(paths):
        parts = [paths[number::processes] for number in range(processes)]
        command = [sys.executable, "-c", code, str(Path(__file__).parent)]
        running = [subprocess.Popen([*command, *map(str, part)]) for part in parts if part]
        assert not any(one.wait() for one in running)

    return way


def by_webdataset(paths):
    import webdataset as wds

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in wds.WebDataset([str(path) for path in paths], shardshuffle=False, empty_check=False):
            pass


def by_tar(*options):
    def way(paths):
        for path in paths:
            subprocess.run(["tar", *options, "-tf", path], stdout=subprocess.DEVNULL, check=True)

    return way


def by_pyarrow(paths):
    """Decodes everything, and counts blank texts, as a check has to."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches():
            text = batch.column("text")
            pc.sum(pc.equal(pc.utf8_trim_whitespace(text), "")).as_py()
            pc.sum(pc.utf8_length(text)).as_py()


def by_json(paths):
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                len(json.loads(line)["text"].strip())


def data_sets(quick):
    less = 4 if quick else 1
    tar = {"webdataset": by_webdataset, "tar -tf": by_tar(), "tar --no-seek -tf": by_tar("--no-seek")}
    return {
        "tar, samples of 100 KB": (lambda to: write_shards(to, 16 // less, 800, 100_000), tar),
        "tar, samples of 2 MB": (lambda to: write_shards(to, 16 // less, 40, 2_000_000), tar),
        "tar, samples of 5 KB": (lambda to: write_shards(to, 16 // less, 8000, 5_000), tar),
        "parquet, text": (lambda to: write_tables(to, 16 // less, 60_000), {"pyarrow": by_pyarrow}),
        "JSON lines": (lambda to: write_lines(to, 16 // less, 40_000), {"json": by_json}),
    }


def spent():
    """Processor seconds of this process and of those that it has waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def drop_caches(path):
    """And have the programs themselves in memory again: it is the data that should come from the disk."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    head = path.with_name("head")
    head.write_bytes(path.open("rb").read(1 << 20))
    ours(1)([head], whole=False)
    subprocess.run(["tar", "--version"], stdout=subprocess.DEVNULL, check=True)
    head.unlink()


def measured(ways, paths, rounds, cold):
    """Bytes a second, and processors that were busy with it."""
    best = dict.fromkeys(ways, (0.0, 0.0))
    for _ in range(rounds):
        for name, way in ways.items():
            if cold:
                drop_caches(paths[0])
            chosen = paths[: len(paths) // NAMES] if name in SLOW else paths
            size = sum(path.stat().st_size for path in chosen)
            began, before = time.perf_counter(), spent()
            way(chosen)
            took = time.perf_counter() - began
            best[name] = max(best[name], (size / took, (spent() - before) / took))
    return best


def named(folder, cold):
    """All files under their first name, then all under their second one."""
    first = sorted(folder.iterdir())
    for number in range(1, NAMES):
        for path in first:
            (shutil.copyfile if cold else os.link)(path, folder / f"{number}-{path.name}")
    return sorted(folder.iterdir(), key=lambda path: (path not in first, path.name))


def table(name, paths, best, others):
    print(f"{name}: {sum(path.stat().st_size for path in paths) / 1e6:,.0f} MB in {len(paths)} files")
    base, own = best["plain reading"][0], best[max(key for key in best if key.startswith("unstuck"))][0]
    for way, (rate, cores) in best.items():
        ahead = f"   unstuck is {own / rate:.2f} times as fast" if way in others else ""
        print(f"  {way:<28} {rate / 1e6:>8,.0f} MB/s   {rate / base:>5.2f} of plain reading   {cores:.1f} cores{ahead}")
    print()


def main():
    chosen = arguments()
    cores, figures = len(os.sched_getaffinity(0)), {}
    state = "cold" if chosen.cold else "warm"
    print(
        f"{time.strftime('%Y-%m-%d')}: {cores} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}, {state}; "
        f"Python {platform.python_version()}, webdataset {version('webdataset')}, pyarrow {version('pyarrow')}\n"
    )
    for name, (write, others) in data_sets(chosen.quick).items():
        if chosen.only and chosen.only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="unstuck-benchmark-") as folder:
            write(Path(folder))
            paths = named(Path(folder), chosen.cold)
            ways = {"plain reading": plain, "unstuck, 1 process": ours(1), **others}
            if cores > 1:
                ways |= {
                    f"plain reading, {cores} processes": plain_in(cores),
                    f"unstuck, {cores} processes": ours(cores),
                }
            with contextlib.redirect_stderr(io.StringIO()):
                best = measured(ways, paths, 3 if chosen.quick else ROUNDS, chosen.cold)
            table(name, paths, best, others)
        figures[name] = best
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
