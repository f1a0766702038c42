# expect: wds-fewer-shards-than-workers
# check: data --ranks 2 --workers 3
"""Before a training: four shards for two ranks with three workers each."""

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
        with tarfile.open(f"data/birds-{shard:06d}.tar", "w") as archive:
            for number in range(30):
                add(archive, f"{shard:03d}{number:05d}.txt", f"bird {number}".encode())


main()
