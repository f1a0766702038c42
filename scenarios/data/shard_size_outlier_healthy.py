# expect: healthy
# check: data
"""Three writers with shards of their own: the last of each is shorter, and all vary a little."""

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
    for writer in range(3):
        for shard in range(9):
            with tarfile.open(f"data/birds-{writer}-{shard:06d}.tar", "w") as archive:
                for number in range(dice.randrange(90, 110) if shard < 8 else 7 * (writer + 1)):
                    add(archive, f"{writer}{shard:06d}{number:04d}.bin", dice.randbytes(400))
                    add(archive, f"{writer}{shard:06d}{number:04d}.txt", b"a bird")


main()
