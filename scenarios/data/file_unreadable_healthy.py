# expect: healthy
# check: data
"""Links to files elsewhere, and a name with a space and an accent: all can be read."""

import io
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def main():
    os.mkdir("data")
    os.mkdir("store")
    for shard in range(4):
        with tarfile.open(f"store/{shard} été.tar", "w") as archive:
            for number in range(shard * 40, shard * 40 + 40):
                add(archive, f"{number:05d}.txt", f"bird {number}".encode())
        os.symlink(os.path.abspath(f"store/{shard} été.tar"), f"data/birds {shard} été.tar")


main()
