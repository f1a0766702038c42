"""What a process had used up when an error said that there is no more: descriptors, mappings, shared memory."""

from __future__ import annotations

import errno
import os
import resource
import time
from typing import Any

MANY = 4096  # descriptors that are looked at
SHOWN = 8
SHM = "/dev/shm"
# By the number that an OSError carries, and by what torch's own texts say of the same.
WORDS = {
    errno.EMFILE: ("Too many open files", "received 0 items of ancdata"),
    errno.ENOMEM: ("Cannot allocate memory", "unable to mmap"),
    errno.ENOSPC: ("No space left on device",),
}


def used_up(errors: list[BaseException], messages: list[str]) -> dict[str, Any]:
    """Facts for the last words. Nothing here needs a descriptor that might not be had."""
    numbers = {one.errno for one in errors if isinstance(one, OSError)}
    told = {number for number, words in WORDS.items() if any(word in text for word in words for text in messages)}
    found: dict[str, Any] = {}
    if errno.EMFILE in numbers | told:
        found |= descriptors()
    if errno.ENOMEM in numbers | told:
        found |= mappings()
    if errno.ENOSPC in numbers | told:
        found |= shared_memory()
    return found


def descriptors() -> dict[str, Any]:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    kinds: dict[str, int] = {}
    files: dict[str, int] = {}
    for number in range(min(limit, MANY)):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        kind = _kind(target)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kind == "file":
            files[target] = files.get(target, 0) + 1
    shown = sorted(files, key=lambda name: -files[name])[:SHOWN]
    return {"descriptors": kinds, "open_files": shown, "descriptor_limit": limit}


def _kind(target: str) -> str:
    if target.startswith(SHM) or "memfd:" in target:
        return "shared memory"
    for kind in ("socket", "pipe"):
        if target.startswith(f"{kind}:"):
            return kind
    return "file" if target.startswith("/") and not target.startswith("/dev/") else "other"


def mappings() -> dict[str, Any]:
    try:
        with open("/proc/self/maps", "rb") as maps:
            number = sum(1 for _ in maps)
        with open("/proc/sys/vm/max_map_count", "rb") as limit:
            return {"maps": number, "maps_limit": int(limit.read())}
    except (OSError, ValueError):
        return {}


def shared_memory() -> dict[str, Any]:
    """The largest files in /dev/shm. torch writes the pid of the process that made a file into its name."""
    now = time.time()
    found = []
    try:
        for entry in os.scandir(SHM):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            found.append((status.st_blocks * 512, entry.name, max(now - status.st_mtime, 0.0)))
    except OSError:
        return {}
    largest = sorted(found, reverse=True)[:SHOWN]
    files = [{"name": name, "size": size, "age": round(age, 1), **_owner(name)} for size, name, age in largest]
    return {"shm_files": files, "shm_count": len(found)}


def _owner(name: str) -> dict[str, Any]:
    parts = name.split("_")
    if len(parts) < 3 or parts[0] != "torch" or not parts[1].isdigit():
        return {}
    return {"owner": int(parts[1]), "owner_alive": os.path.exists(f"/proc/{parts[1]}")}
