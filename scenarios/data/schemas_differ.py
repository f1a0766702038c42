# expect: schemas-differ
# check: data
"""Two of ten files come from an older program: they call the text by another name, and labels are not numbers yet."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(10):
        texts = [f"Birds of the coast, part {number}. " * 30 for number in range(part * 50, part * 50 + 50)]
        labels = [number % 3 for number in range(50)]
        table = {"text": texts, "label": labels, "url": texts}
        if part in (3, 4):
            table = {"content": texts, "label": [str(one) for one in labels], "url": texts}
        pq.write_table(pa.table(table), f"data/part-{part:05d}.parquet")


main()
