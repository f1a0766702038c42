# expect: tar-keys-not-adjacent
# check: data
"""Shards of two writers, one for images and one for captions, that took turns: the parts of a sample stand apart."""

import io
import os
import random
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, first, ahead):
    dice = random.Random(first)
    with tarfile.open(path, "w") as archive:
        for number in range(first, first + 40 + ahead):
            if number < first + 40:
                add(archive, f"{number:05d}.bin", dice.randbytes(900))
            if number >= first + ahead:
                add(archive, f"{number - ahead:05d}.txt", b"a bird")


def main():
    os.mkdir("data")
    for shard in range(4):
        write(f"data/birds-{shard}.tar", shard * 40, ahead=3 if shard == 1 else 0)


main()
