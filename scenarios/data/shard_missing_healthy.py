# expect: healthy
# check: data
"""The first shards of many, and the last, which is for validation; and a split that took some of the others."""

import io
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(path, shard):
    with tarfile.open(path, "w") as archive:
        for number in range(shard * 10, shard * 10 + 10):
            add(archive, f"{number:05d}.txt", f"bird {number}".encode())


def main():
    os.makedirs("data/train")
    os.makedirs("data/val")
    for shard in [*range(8), 1822]:
        write(f"data/fish_{shard:05d}.tar", shard + 5000)
    for shard in range(24):
        write(f"data/{'val' if shard in (5, 17) else 'train'}/birds-{shard:06d}.tar", shard)


main()
