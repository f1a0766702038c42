# expect: manifest-disagrees
# check: data --against data/manifest.json
"""A shard was written again after the manifest, with fewer samples; another was never copied."""

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
    for shard in range(6):
        write(shard, 50 if shard != 3 else 44)
    shards = [{"url": f"birds-{shard:06d}.tar", "nsamples": 50} for shard in range(7)]
    with open("data/manifest.json", "w") as out:
        json.dump({"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": shards}, out)


main()
