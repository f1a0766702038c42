# expect: healthy
# check: data --batch-tokens 65537
"""Documents of a few pages: some are short, and on average they are not."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(4):
        texts = [f"Bird {number} was seen on the coast today. It sang. " * (1 + number % 90) for number in range(500)]
        pq.write_table(pa.table({"text": texts}), f"data/part-{part:05d}.parquet", row_group_size=100)


main()
