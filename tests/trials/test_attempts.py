    held = "import mmap, sys, time\nf = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0)\nprint(flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", held, str(used)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        sweep(before)
        assert [path.exists() for path in (left, used, other)] == [False, True, True]
    finally:
        holder.kill()
        holder.wait()
        used.unlink()
        other.unlink()


def test_the_processes_below_one_are_found(tmp_path: Path) -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True)
    try:
        waited_for(lambda: len(below(process.pid)) == 3)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processes_of(folder: Path) -> list[int]:
    """By the request they were started with, or the mark in their environment."""
    marks = (str(folder).encode(),)
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and any(mark in text for mark in marks):
            found.append(pid)
    return found


def waited_for(come: object, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not come():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.1)
