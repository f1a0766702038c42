# expect: healthy
# check: data
"""Every shard counts its keys from 0, all files are of the same size and time, and no sample is there twice."""

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
            for number in range(40):
                add(archive, f"{number:05d}.bin", dice.randbytes(900))
                add(archive, f"{number:05d}.cls", str(dice.randrange(9)).encode())


main()
