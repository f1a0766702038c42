# expect: healthy
# check: data
"""Two samples in three have a mask as well: that is optional by design."""

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
    for shard in range(4):
        dice = random.Random(shard)
        with tarfile.open(f"data/birds-{shard}.tar", "w") as archive:
            for number in range(shard * 100, shard * 100 + 100):
                add(archive, f"{number:05d}.bin", dice.randbytes(300))
                add(archive, f"{number:05d}.txt", b"a bird")
                if number % 3:
                    add(archive, f"{number:05d}.mask.bin", dice.randbytes(50))


main()
