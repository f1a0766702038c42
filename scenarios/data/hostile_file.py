# expect: hostile-file
# check: data
"""An archive from somewhere with a member that would be unpacked outside of its folder."""

import io
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def main():
    os.mkdir("data")
    for shard in range(3):
        with tarfile.open(f"data/birds-{shard}.tar", "w") as archive:
            for number in range(shard * 40, shard * 40 + 40):
                add(archive, f"{number:05d}.txt", f"bird {number}".encode())
            if shard == 1:
                add(archive, "../../.bashrc.txt", b"echo a bird was here")


main()
