# expect: healthy
# check: data
"""Rows are lines of articles, a third of them blank between paragraphs; another column is mostly null by design."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(8):
        texts, titles = [], []
        for number in range(part * 40, part * 40 + 40):
            texts += ["", f" = Birds {number} = \n", " They sing along the coast, in spring above all. \n" * 9]
            titles += [None, f"Birds {number}", None]
        pq.write_table(pa.table({"text": texts, "title": titles}), f"data/part-{part:05d}.parquet")


main()
