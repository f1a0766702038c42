# expect: zeroed-blocks
# check: data
"""The machine went down while shards were written: some images have zeros in the middle, and still open."""

import io
import os
import tarfile

import numpy as np
from PIL import Image


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def image(number):
    pixels = np.random.default_rng(number).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return bytearray(out.getvalue())


def main():
    os.mkdir("data")
    for shard in range(3):
        with tarfile.open(f"data/leaves-{shard}.tar", "w") as archive:
            for number in range(shard * 20, shard * 20 + 20):
                content = image(number)
                if number in (27, 28):
                    content[1500:3000] = bytes(1500)
                add(archive, f"{number:04d}.jpg", bytes(content))
                add(archive, f"{number:04d}.json", b'{"leaf": "oak"}')


main()
