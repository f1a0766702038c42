# expect: shard-missing
# check: data
"""Twenty-four shards were meant to be fetched, and the download of one failed without anybody noticing."""

import io
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def main():
    os.mkdir("data")
    for shard in range(24):
        if shard != 17:
            with tarfile.open(f"data/birds-{shard:06d}.tar", "w") as archive:
                for number in range(shard * 10, shard * 10 + 10):
                    add(archive, f"{number:05d}.txt", f"bird {number}".encode())


main()
