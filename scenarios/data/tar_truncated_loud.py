# expect: tar-truncated-loud
# check: data
"""Shards of bird songs, one of which was cut off in the middle of a song when the download broke."""

import io
import os
import random
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, first, count):
    dice = random.Random(first)
    with tarfile.open(path, "w") as archive:
        for number in range(first, first + count):
            add(archive, f"{number:06d}.wav", dice.randbytes(2000))
            add(archive, f"{number:06d}.cls", str(number % 9).encode())


def main():
    os.mkdir("data")
    for shard in range(6):
        write(f"data/songs-{shard:06d}.tar", shard * 50, 50)
    os.truncate("data/songs-000003.tar", 90_800)


main()
