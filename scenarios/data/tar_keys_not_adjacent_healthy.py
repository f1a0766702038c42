# expect: healthy
# check: data
"""Shards whose samples stand in any order, with their parts in any order, but together."""

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
    dice = random.Random(7)
    for shard in range(4):
        keys = [f"{number:05d}" for number in range(shard * 40, shard * 40 + 40)]
        dice.shuffle(keys)
        with tarfile.open(f"data/birds-{shard}.tar", "w") as archive:
            for key in keys:
                parts = [(".bin", dice.randbytes(900)), (".txt", b"a bird"), (".seg.bin", b"11"), (".CLS", b"3")]
                dice.shuffle(parts)
                for ending, content in parts:
                    add(archive, f"./train/{key}{ending}", content)


main()
