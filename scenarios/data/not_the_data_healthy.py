# expect: healthy
# check: data
"""A data set with what belongs to it: a page about it, a licence, the attributes of its repository."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(5):
        texts = [f"<html><body>Birds of the coast, part {number}</body></html>" * 9 for number in range(300)]
        pq.write_table(pa.table({"text": texts}), f"data/part-{part:05d}.parquet")
    beside = {
        "index.html": "<!doctype html><title>Birds</title>",
        "LICENSE": "Anybody may use it.",
        "README.md": "# Birds",
    }
    for name, text in beside.items():
        with open(f"data/{name}", "w") as out:
            out.write(text)


main()
