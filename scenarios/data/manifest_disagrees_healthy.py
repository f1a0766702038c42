# expect: healthy
# check: data --against data/manifest.json
"""The manifest counts what is there, and says of one small shard that it is meant to be small."""

import io
import json
import os
import tarfile


def add(archive, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), 1_700_000_000
    archive.addfile(info, io.BytesIO(data))


def write(shard, count):
    with tarfile.open(f"data/birds-{shard:06d}.tar", "w") as archive:
        for number in range(count):
            add(archive, f"{shard:03d}{number:05d}.txt", f"bird {number}".encode())


def main():
    os.mkdir("data")
    counts = [50, 50, 50, 4, 50, 50, 50, 50, 50, 50]
    for shard, count in enumerate(counts):
        write(shard, count)
    shards = [{"url": f"birds-{shard:06d}.tar", "nsamples": count} for shard, count in enumerate(counts)]
    with open("data/manifest.json", "w") as out:
        json.dump({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards}, out)


main()
