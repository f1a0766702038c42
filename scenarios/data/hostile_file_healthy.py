# expect: healthy
# check: data --decode
"""Names that look odd and are not: dots, spaces, other alphabets, a folder for every sample, links inside."""

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
            folder = tarfile.TarInfo("./birds")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for number in range(shard * 40, shard * 40 + 40):
                add(archive, f"./birds/Vögel & 鳥 ({number:05d}).txt", f"bird {number}".encode())
                add(archive, f"./birds/Vögel & 鳥 ({number:05d}).a..b", b"two dots")
            link = tarfile.TarInfo("./birds/newest")
            link.type, link.linkname = tarfile.SYMTYPE, "here/and.there"
            archive.addfile(link)


main()
