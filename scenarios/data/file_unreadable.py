# expect: file-unreadable
# check: data
"""A file that the system refuses to read: it opens, has a size, and every read is an error."""

import io
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def main():
    os.mkdir("data")
    for shard in range(4):
        with tarfile.open(f"data/birds-{shard}.tar", "w") as archive:
            for number in range(shard * 40, shard * 40 + 40):
                add(archive, f"{number:05d}.txt", f"bird {number}".encode())
    os.unlink("data/birds-2.tar")
    os.symlink("/sys/class/net/lo/speed", "data/birds-2.tar")  # the loopback device has no speed: reading is refused


main()
