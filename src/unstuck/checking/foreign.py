"""What was saved in place of data: an error page, a pointer of Git LFS, zeros."""

from __future__ import annotations

from .noting import Notes

POINTER = b"version https://git-lfs.github.com/spec/"


def foreign(head: bytes, notes: Notes, meant: str) -> bool:
    """Whether it is something else altogether: then it is noted."""
    start = head.lstrip()[:200].lower()
    if head.startswith(POINTER):
        notes.fault("foreign", f"a pointer of Git LFS stands here instead of {meant}: the data was never fetched", at=0)
    elif start.startswith((b"<!doctype html", b"<html")):
        notes.fault("foreign", f"a web page stands here instead of {meant}", at=0)
    elif start.startswith((b"<?xml", b"<error")):
        notes.fault("foreign", f"an XML message stands here instead of {meant}", at=0)
    else:
        return False
    return True
