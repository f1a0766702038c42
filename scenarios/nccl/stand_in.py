"""A stand-in for NCCL and a GPU, on top of gloo: what a thread does there, without either. Never tried on a GPU.

- A collective only enqueues: the call returns at once, `wait()` too, and so does DDP's backward. (Only reductions: what
  a rank receives is used by the CPU here, and so is waited for.)
- Who reads a tensor (`item`, `cpu`, `tolist` …), synchronises, meets in a barrier or has too much enqueued waits for the
  collectives, spinning in a function with CUDA's name (cuda.c).
- What never finishes is never told by an exception: a watchdog, a thread without Python, prints NCCL's words after the
  group's time-out and aborts the process.
- A partner that is gone is not noticed, as between GPUs of one machine.

The collectives themselves, and torch's Flight Recorder of them, are gloo's.
"""

import ctypes
import functools
import os
import stat
import subprocess
import sys
import time
import types
from datetime import timedelta

LIBRARY = "NCCL_STAND_IN_LIBRARY"  # where the compiled cuda.c is
NEVER = timedelta(days=1)  # gloo's own time-out: only the watchdog gives up here
QUEUE = 3  # collectives ahead of the oldest unfinished one: then a launch waits, as a GPU's queue is full in some steps
COLLECTIVES = {
    "allreduce": "AllreduceOptions",
    "allreduce_coalesced": "AllreduceCoalescedOptions",
    "broadcast": "BroadcastOptions",
    "allgather": "AllgatherOptions",
    "_allgather_base": "AllgatherOptions",
    "reduce": "ReduceOptions",
    "gather": "GatherOptions",
    "scatter": "ScatterOptions",
    "reduce_scatter": "ReduceScatterOptions",
    "barrier": "BarrierOptions",
}
# Whose result is computed with next, on the CPU here, and so has to be there; a barrier waits for the host anyway.
AT_ONCE = ("broadcast", "allgather", "_allgather_base", "scatter", "gather", "barrier")
READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__")
WORDS = """\
[rank{rank}]:[E1118 03:12:07.104 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)={limit}) \
ran for {limit} milliseconds before timing out.
[rank{rank}]:[E1118 03:12:07.105 ProcessGroupNCCL.cpp:2252] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected \
by watchdog at work sequence id: {number} PG status: last enqueued work: {enqueued}, last completed work: {completed}
[rank{rank}]:[E1118 03:12:07.105 ProcessGroupNCCL.cpp:730] [Rank {rank}] Some NCCL operations have failed or timed out. \
Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
[rank{rank}]:[E1118 03:12:07.105 ProcessGroupNCCL.cpp:744] [Rank {rank}] To avoid data inconsistency, we are taking the \
entire process down.
terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: \
[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, \
NumelIn={numel}, NumelOut={numel}, Timeout(ms)={limit}) ran for {limit} milliseconds before timing out.
"""


class Device:
    """What was enqueued in this process and has not finished, as cuda.c sees it."""

    def __init__(self, path):
        self.cuda = ctypes.CDLL(path)
        self.pending = ctypes.c_int.in_dll(self.cuda, "pending")
        self.deadline = ctypes.c_longlong.in_dll(self.cuda, "deadline")
        self.last_words = (ctypes.c_char * 4096).in_dll(self.cuda, "last_words")
        self.unfinished = {}
        self.enqueued = 0
        self.watched = 0  # the process that has a watchdog
        self.newest = None  # the group that enqueued last
        os.register_at_fork(after_in_child=self.forget)

    def forget(self):
        """A forked worker has nothing on the device."""
        self.unfinished.clear()
        self.tell()

    def room(self, group):
        """Wait until one more can be enqueued. The groups' collectives follow each other: a GPU runs one at a time."""
        if self.watched != os.getpid():
            self.watched = os.getpid()
            self.cuda.start_watchdog()
        self.cuda.cudaLaunchKernel(0 if self.unfinished and group is not self.newest else QUEUE)
        self.newest = group

    def enqueue(self, work, rank, operation, numel, seconds, finish):
        self.enqueued += 1
        number = self.enqueued
        words = {"rank": rank, "operation": operation, "numel": numel, "limit": int(seconds * 1000), "number": number}
        self.unfinished[number] = time.monotonic_ns() + int(seconds * 1e9), words
        self.tell()
        work.get_future().add_done_callback(lambda future: self.finished(number, future, finish))

    def finished(self, number, future, finish):
        try:
            future.value()
            finish()
        except RuntimeError:  # gloo has noticed what a kernel would not: it waits for ever
            return
        self.unfinished.pop(number, None)
        self.tell()

    def tell(self):
        oldest = min(self.unfinished, default=None)
        if oldest is None:
            self.deadline.value = 0
        else:
            at, words = self.unfinished[oldest]
            text = WORDS.format(**words, enqueued=self.enqueued, completed=oldest - 1)
            self.last_words.value = text.encode()[:4000]
            self.deadline.value = at
        self.pending.value = len(self.unfinished)

    def synchronize(self):
        if self.pending.value:
            self.cuda.cudaStreamSynchronize(None)


def make(c10d):
    """The backend, once torch is there as a whole: with the first group."""
    import torch

    device = Device(os.environ[LIBRARY])
    group = group_class(torch, c10d, device, work_class(torch, c10d, device))
    for name in READS:
        setattr(torch.Tensor, name, reading(getattr(torch.Tensor, name), device))
    torch.cuda.synchronize = lambda device_=None: device.cuda.cudaDeviceSynchronize()

    def create(store, rank, size, timeout):
        return group(store, rank, size, timeout)

    c10d.Backend.register_backend("nccl_stand_in", create, devices=["cpu"])


def work_class(torch, c10d, device):
    class Work(c10d.Work):
        """Enqueued. To wait for it is to have the stream wait, which takes no time; unless its result is read."""

        def __init__(self, inner, result, read):
            super().__init__()
            self.inner, self.read = inner, read
            self.future = torch.futures.Future()
            self.future.set_result(result)

        def wait(self, timeout=None):
            if self.read:
                device.synchronize()
            return True

        def synchronize(self):
            self.wait()

        def is_completed(self):
            return self.inner.is_completed()

        def get_future(self):
            return self.future

    return Work


def group_class(torch, c10d, device, work):  # noqa: C901  (torch is not there yet when this file is read)
    class Group(c10d.ProcessGroup):
        """A process group whose collectives are gloo's and whose waiting is NCCL's."""

        _device_types = (torch.device("cpu"),)

        def __init__(self, store, rank, size, timeout):
            super().__init__(rank, size)
            self.timeout, self.own = timeout, (rank, size)
            self.gloo = c10d.ProcessGroupGloo(store, rank, size, NEVER)
            self.named = c10d.ProcessGroup(store, rank, size)  # the Flight Recorder has the group's name from there
            self.named._register_backend(torch.device("cpu"), c10d.ProcessGroup.BackendType.GLOO, self.gloo)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.gloo))  # its end would wait for what never comes
            keep_connections()

        def enqueue(self, name, options, given):
            device.room(self)
            whole = given if given and isinstance(given[-1], options) else (*given, options())
            averages = getattr(whole[-1], "reduceOp", None) == c10d.ReduceOp.AVG  # which gloo cannot
            if averages:
                whole[-1].reduceOp = c10d.ReduceOp.SUM
            inner = getattr(self.gloo, name)(*whole)
            result = given[0] if given and isinstance(given[0], list) else list(given[:1])
            sizes = [one.numel() for one in result if isinstance(one, torch.Tensor)]
            operation = name.upper().replace("ALL_GATHER_SINGLE", "_ALLGATHER_BASE")

            def finish():
                for tensor in result if averages else ():
                    tensor.div_(self.own[1], rounding_mode=None if tensor.is_floating_point() else "floor")

            device.enqueue(inner, self.own[0], operation, sum(sizes) or 1, self.timeout.total_seconds(), finish)
            return work(inner, result, name in AT_ONCE or reads_at_once(sys._getframe(1)))

        def monitored_barrier(self, *given):
            self.gloo.monitored_barrier(*given)

        def send(self, tensors, rank, tag=0):
            return self.gloo.send(tensors, rank, tag)

        def recv(self, tensors, rank, tag=0):
            return self.gloo.recv(tensors, rank, tag)

        def getBackendName(self):
            return "nccl_stand_in"

        def getRank(self):
            return self.own[0]

        def getSize(self):
            return self.own[1]

        def setGroupName(self, name):
            self.named._set_group_name(name)

        def getGroupName(self):
            return self.named.group_name

        def setGroupDesc(self, description):
            self.named._set_group_desc(description)

        def getGroupDesc(self):
            return self.named.group_desc

        def _get_backend(self, device_):
            """With the group's time-out, as torch's own have it."""
            return types.SimpleNamespace(options=types.SimpleNamespace(_timeout=self.timeout))

        def _set_sequence_number_for_group(self):
            self.gloo._set_sequence_number_for_group()

        def shutdown(self):
            device.synchronize()

        def abort(self):
            return None

    def collective(name, options):
        def call(self, *given, **named):
            return self.enqueue(name, options, (*given, *named.values()))

        call.__name__ = name
        return call

    for name, options in COLLECTIVES.items():
        setattr(Group, name, collective(name, getattr(c10d, options)))
    Group.all_gather_single = Group._allgather_base
    return Group


def keep_connections():
    """For as long as the launcher lives: a rank that ends is not noticed by the others, and gloo would tell them."""
    known = [int(name) for name in os.listdir("/proc/self/fd")]
    sockets = [fd for fd in known if is_socket(fd)]
    waits = f"(while kill -0 {os.getppid()} 2>/dev/null; do sleep 0.3; done) &"
    nowhere = subprocess.DEVNULL
    subprocess.run(
        ["sh", "-c", waits],
        check=False,
        pass_fds=sockets,
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )


def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:  # it was closed meanwhile
        return False


def reads_at_once(frame):
    """DDP reads what it exchanges while it is made, and before a forward."""
    while frame is not None:
        file = frame.f_code.co_filename
        if "torch/autograd/" in file:
            return False
        if file.endswith("torch/nn/parallel/distributed.py"):
            return True
        frame = frame.f_back
    return False


def on_device(frame):
    """A tensor that a sampler or a dataset reads is in the memory of the host."""
    while frame is not None:
        if "torch/utils/data/" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return True


def reading(original, device):
    @functools.wraps(original)
    def read(self, *args, **kwargs):
        if device.pending.value and on_device(sys._getframe(1)):
            device.cuda.cudaStreamSynchronize(None)
        return original(self, *args, **kwargs)

    return read


def install(c10d):
    """Whoever asks for gloo is given the stand-in."""
    original = c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(backend=None, *args, **kwargs):
        if "NCCL_STAND_IN" not in c10d.Backend._plugins:
            make(c10d)
        return original("nccl_stand_in" if backend in (None, "gloo", "cpu:gloo") else backend, *args, **kwargs)

    c10d.init_process_group = init_process_group
