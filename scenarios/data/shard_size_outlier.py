# expect: shard-size-outlier
# check: data
"""A writer was stopped and closed its shard in good order: it has a tenth of what the others have."""

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
    dice = random.Random(3)
    for shard in range(16):
        with tarfile.open(f"data/birds-{shard:06d}.tar", "w") as archive:
            for number in range(10 if shard == 6 else dice.randrange(90, 110)):
                add(archive, f"{shard:06d}{number:04d}.bin", dice.randbytes(400))
                add(archive, f"{shard:06d}{number:04d}.txt", b"a bird")


main()
