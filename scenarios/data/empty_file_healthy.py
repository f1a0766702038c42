# expect: healthy
# check: data
"""What jobs leave beside their data: an empty mark of success, a checksum, a list. No data is empty."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(5):
        texts = [f"Birds of the coast, part {number}. " * 40 for number in range(300)]
        pq.write_table(pa.table({"text": texts}), f"data/part-{part:05d}.parquet")
    for name in ("_SUCCESS", "train.lock", ".part-00003.parquet.crc"):
        open(f"data/{name}", "w").close()


main()
