# expect: healthy
# check: data --decode
"""The same shards, whole: written in three dialects of tar, with long names, and the last of them is shorter."""

import io
import os
import random
import tarfile

FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, first, count, dialect):
    dice = random.Random(first)
    with tarfile.open(path, "w", format=dialect) as archive:
        for number in range(first, first + count):
            folder = "a-long-name-of-a-place-where-birds-sing/" * (1 if dialect == tarfile.USTAR_FORMAT else 4)
            add(archive, f"{folder}{number:06d}.wav", dice.randbytes(2000))
            add(archive, f"{folder}{number:06d}.cls", str(number % 9).encode())


def main():
    os.mkdir("data")
    for shard in range(6):
        write(f"data/songs-{shard:06d}.tar", shard * 50, 50 if shard < 5 else 17, FORMATS[shard % 3])
    with open("data/songs-000005.tar", "ab") as archive:  # some writers fill up a tape's record
        archive.write(bytes(10240))


main()
