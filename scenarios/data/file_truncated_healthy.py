# expect: healthy
# check: data --decode
"""Whole files of several kinds: parquet, Arrow streams and files, gzip in several pieces, arrays in memory order."""

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    table = pa.table({"text": [f"Birds of the coast, part {number}. " * 40 for number in range(300)], "id": range(300)})
    for part, codec in enumerate(("snappy", "zstd", "none", "gzip")):
        pq.write_table(table, f"data/part-{part:05d}.parquet", row_group_size=100, compression=codec)
    with pa.OSFile("data/table.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile("data/stream.arrow", "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for piece in range(3):
        with gzip.open("data/lines.jsonl.gz", "ab") as out:
            out.write(b'{"text": "a bird"}\n' * (100 + piece))
    np.save("data/volume.npy", np.asfortranarray(np.random.default_rng(1).normal(size=(8, 9, 10))))


main()
