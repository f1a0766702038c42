# expect: duplicate-keys
# check: data
"""A writer was restarted in the middle of a shard and appended samples that the archive already had."""

import io
import os
import random
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, numbers, mode="w"):
    with tarfile.open(path, mode) as archive:
        for number in numbers:
            add(archive, f"{number:05d}.bin", random.Random(number).randbytes(900))
            add(archive, f"{number:05d}.txt", b"a bird")


def main():
    os.mkdir("data")
    for shard in range(4):
        write(f"data/birds-{shard}.tar", range(shard * 40, shard * 40 + 40))
    write("data/birds-2.tar", range(112, 120), mode="a")


main()
