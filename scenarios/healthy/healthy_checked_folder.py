# expect: healthy
# check: data --decode --ranks 2 --workers 2 --batch-tokens 8192
"""A folder as people have them: shards, tables, lines, arrays, images and notes of several splits, all in order."""

import gzip
import io
import json
import os
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def image(number, kind="JPEG", **options):
    pixels = np.random.default_rng(number).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def shards():
    for split, count in (("train", 9), ("val", 2)):
        os.makedirs(f"data/{split}")
        for shard in range(count):
            with tarfile.open(f"data/{split}/{shard:05d}.tar", "w") as archive:
                for number in range(40 if shard < count - 1 else 11):
                    key = f"{split}{shard:02d}{number:04d}"
                    add(archive, f"{key}.jpg", image(shard * 100 + number, progressive=number % 2 == 0))
                    add(archive, f"{key}.json", json.dumps({"caption": "a bird", "n": number}).encode())
                    if number % 4:
                        add(archive, f"{key}.txt", "ein Vögelchen".encode())


def tables():
    texts = [f"Birds of the coast, part {number}. " * (10 + number % 50) for number in range(400)]
    for part in range(4):
        table = pa.table({"text": texts, "score": [0.5] * 400, "date": [None] * 399 + ["today"]})
        pq.write_table(table, f"data/train-{part:05d}-of-00004.parquet", row_group_size=100)
    for part in range(4):
        with gzip.open(f"data/lines-{part}.jsonl.gz", "wt") as out:
            out.writelines(json.dumps({"text": text, "id": number}) + "\n" for number, text in enumerate(texts))


def main():
    shards()
    tables()
    os.makedirs("data/images")
    for number in range(12):
        kind = ("JPEG", "PNG", "WEBP")[number % 3]
        with open(f"data/images/{number * 7}.{kind.lower()}", "wb") as out:
            out.write(image(number, kind))
    for number in range(6):
        np.savez(f"data/volume-{number * 3}.npz", volume=np.zeros((8, 8, 8)), spacing=np.ones(3))
    with open("data/README.md", "w") as out:
        out.write("# Birds\n")
    open("data/_SUCCESS", "w").close()


main()
