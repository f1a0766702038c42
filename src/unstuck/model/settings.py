"""What a loader is tried in: limits of the machine, processors, variables, versions. Sizes are bytes."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """As a process started now, by this user, with this interpreter, would find them. None: it could not be read."""

    python: str = ""  # the interpreter's path
    python_version: str = ""
    kernel: str = ""
    machine: str = ""  # x86_64, aarch64
    container: str = ""  # docker, podman, kubernetes, lxc, singularity, or just container; "": none that shows
    shm_size: int | None = None
    shm_free: int | None = None
    shm_kind: str = ""  # file system of /dev/shm; "": it is no mount of its own
    folder: str = ""  # the working folder
    folder_kind: str = ""  # its file system: ext4, nfs4, overlay, fuse.sshfs …
    folder_free: int | None = None
    descriptors: int | None = None  # that a process may have open; None: as many as it likes
    descriptors_most: int | None = None  # to which it may raise that itself
    memory: int | None = None  # of the machine
    memory_available: int | None = None
    memory_limit: int | None = None  # of the smallest cgroup above; None: there is none
    memory_used: int | None = None  # of that cgroup, without page cache
    processors: int | None = None  # of the machine
    processors_allowed: int | None = None  # to this process, by its affinity
    processors_granted: int | None = None  # by cpusets of cgroups, whatever the affinity
    processors_quota: float | None = None  # by the cgroups' quota; None: there is none
    start_method: str = ""  # of multiprocessing, by default
    sharing_strategy: str = ""  # of torch.multiprocessing, by default
    max_map_count: int | None = None
    variables: dict[str, str] = {}  # that are set, of those that data loading is often told with
    versions: dict[str, str] = {}  # of libraries installed for that interpreter, by name
    unreadable: list[str] = []  # what could not be asked, and why


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """One true sentence about a variable, or about a version that is known to be bad."""

    about: str  # the variable or the library, with its value or version
    text: str
    source: str = ""  # the public thread that tells it: pytorch/pytorch#101188
