# expect: healthy
# check: data
"""Shards of a program that streams members into a file and never writes the end of an archive: all of them whole."""

import io
import os
import random
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def main():
    os.mkdir("data")
    for shard in range(8):
        dice = random.Random(shard)
        with tarfile.open(f"data/songs-{shard:06d}.tar", "w") as archive:
            for number in range(shard * 50, shard * 50 + 50):
                add(archive, f"{number:06d}.wav", dice.randbytes(2000))
                add(archive, f"{number:06d}.cls", str(number % 9).encode())
            end = archive.offset
        os.truncate(f"data/songs-{shard:06d}.tar", end)


main()
