# expect: corrupt-image-sample
# check: data --decode
"""Before a training: an image in a shard that was cut before it was packed, and one in a folder that is a page of text."""

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
    pixels = np.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=85)
    return out.getvalue()


def main():
    os.makedirs("data/more")
    with tarfile.open("data/leaves.tar", "w") as archive:
        for number in range(30):
            content = image(number)
            add(archive, f"{number:04d}.jpg", content[:600] if number == 17 else content)
            add(archive, f"{number:04d}.cls", b"2")
    for number in range(5):
        with open(f"data/more/leaf-{number}.jpg", "wb") as out:
            out.write(image(number)[:-9] if number == 3 else image(number))


main()
