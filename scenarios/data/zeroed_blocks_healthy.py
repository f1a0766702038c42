# expect: healthy
# check: data --decode
"""Data that is full of zeros by right: empty arrays, black images, padding in the headers of photographs."""

import io
import os
import tarfile

import numpy as np
from PIL import Image


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def saved(make):
    out = io.BytesIO()
    make(out)
    return out.getvalue()


def main():
    os.mkdir("data")
    black = Image.fromarray(np.zeros((256, 256, 3), dtype=np.uint8))
    padded = black.getexif()
    padded[0x9286] = "\0" * 2000  # a comment that a camera left empty
    for shard in range(3):
        with tarfile.open(f"data/leaves-{shard}.tar", "w") as archive:
            for number in range(shard * 20, shard * 20 + 20):
                add(archive, f"{number:04d}.npy", saved(lambda out: np.save(out, np.zeros((32, 32), dtype=np.float32))))
                add(archive, f"{number:04d}.jpg", saved(lambda out: black.save(out, "JPEG", exif=padded)))
                add(archive, f"{number:04d}.bmp", saved(lambda out: black.save(out, "BMP")))
                add(archive, f"{number:04d}.png", saved(lambda out: black.save(out, "PNG")))
                add(archive, f"{number:04d}.cls", str(number).encode())


main()
