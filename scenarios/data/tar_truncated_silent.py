# expect: tar-truncated-silent
# check: data
"""Shards that were copied to a full disk: one ends between two members, one has a block of zeros for a header."""

import io
import os
import random
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, first, count):
    """Where each sample begins."""
    dice, places = random.Random(first), []
    with tarfile.open(path, "w") as archive:
        for number in range(first, first + count):
            places.append(archive.offset)
            add(archive, f"{number:06d}.wav", dice.randbytes(2000))
            add(archive, f"{number:06d}.cls", str(number % 9).encode())
    return places


def main():
    os.mkdir("data")
    places = [write(f"data/songs-{shard:06d}.tar", shard * 50, 50) for shard in range(8)]
    os.truncate("data/songs-000002.tar", places[2][26])
    with open("data/songs-000005.tar", "r+b") as archive:
        archive.seek(places[5][20])
        archive.write(bytes(512))


main()
