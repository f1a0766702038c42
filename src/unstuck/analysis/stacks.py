"""What a thread is doing, by its calls: the innermost call that is known decides."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.live import Frame, Seen, Stack
from .case import is_users

LOADER_FILES = ("torch/utils/data/dataloader.py", "stateful_dataloader/stateful_dataloader.py")
WORKER_FILES = ("torch/utils/data/_utils/worker.py", "stateful_dataloader/worker.py")
FETCH_FILES = ("torch/utils/data/_utils/fetch.py",)
LOGGERS = (
    "-packages/wandb/",
    "-packages/tensorboard/",
    "-packages/tensorboardX/",
    "-packages/mlflow/",
    "-packages/neptune/",
    "-packages/comet_ml/",
    "-packages/clearml/",
    "-packages/aim/",
    "-packages/trackio/",
    "torch/utils/tensorboard/",
)  # fmt: skip  (as installed: a folder of the user's may have such a name too, wandb makes one itself)
COMPILERS = ("torch/_inductor/compile_fx.py", "torch/_inductor/async_compile.py", "triton/compiler")
COMPILED = ("torch/_inductor/output_code.py", "torch/_functorch/", "torch/_dynamo/eval_frame.py")
SAVERS = ("torch/distributed/checkpoint/state_dict_saver.py", "safetensors/torch.py")
DEBUGGERS = ("/pdb.py", "/bdb.py", "/debugpy/", "/pydevd", "/ipdb/", "/code.py", "/IPython/terminal/")
KERNELS = ("/ipykernel/", "/jupyter_client/")
NATIVE_WAITS = ("::wait", "::finalize_backward", "::synchronize", "::monitoredBarrier")
# Functions of CUDA and HIP, and torch's own around them, in which a thread waits until its GPU has come so far: to
# synchronise, to copy, or because too much is enqueued already. Mostly it spins there, with a whole core.
GPU_WAITS = re.compile(
    r"(?:cuda|cu|hip)(?:Stream|Device|Event|Ctx)Synchronize|(?:cuda|cu|hip)(?:Memcpy|LaunchKernel)"
    r"|c10::(?:cuda|hip)::(?:stream_synchronize|device_synchronize|memcpy_and_sync)"
)


class Known(NamedTuple):
    """Calls of certain functions in certain files, and what they are for."""

    doing: str
    files: tuple[str, ...]
    functions: tuple[str, ...] = ()

    def matches(self, frame: Frame) -> bool:
        return any(part in frame.file for part in self.files) and (not self.functions or frame.name in self.functions)


WAITING, FETCHING, IDLE = "waiting for data", "fetching a sample", "waiting for its next index"
STARTING, ENDING, EXITING = "starting workers", "ending its workers", "exiting"
COLLECTIVE, CHECKPOINT, COMPILING = "waiting in a collective", "saving a checkpoint", "compiling"
IMPORTING, SCANNING, LOGGING = "importing", "scanning files", "logging"
USER, LOCK_FILE, BUILDING = "waiting for its user", "waiting for a lock file", "waiting for a build"
DRAWING = "drawing indices from the sampler"
TRAINING, VALIDATING, OWN = "training", "validating", "running its own code"
LAUNCHED = "waiting for the ranks it has started"
GPU = "waiting for the GPU"

TABLE = (
    Known(USER, DEBUGGERS),
    Known(LOCK_FILE, ("filelock/",), ("acquire",)),
    Known(BUILDING, ("torch/utils/file_baton.py",), ("wait",)),
    Known(ENDING, LOADER_FILES, ("_shutdown_workers",)),
    Known(DRAWING, LOADER_FILES, ("_next_index",)),
    Known(WAITING, LOADER_FILES, ("_try_get_data", "_get_data", "_next_data")),
    Known(STARTING, LOADER_FILES, ("__init__", "_get_iterator")),
    Known(FETCHING, FETCH_FILES, ("fetch",)),
    Known(COMPILING, ("torch/_dynamo/convert_frame.py",), ("_compile",)),
    Known(COMPILING, COMPILERS),
    Known(CHECKPOINT, ("torch/serialization.py",), ("save", "_save", "_legacy_save")),
    Known(CHECKPOINT, SAVERS, ("save", "async_save", "save_file", "save_model", "_tobytes", "_flatten")),
    Known(COLLECTIVE, ("torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py")),
    Known(LAUNCHED, ("torch/multiprocessing/spawn.py",), ("join",)),
    Known(LOGGING, LOGGERS),
    Known(SCANNING, ("/os.py", "<frozen os>"), ("walk", "_walk", "scandir")),
    Known(SCANNING, ("/glob.py", "/pathlib.py", "fsspec/"), ("glob", "rglob", "_iglob", "_glob1", "iterdir", "find")),
    Known(TRAINING, ("torch/optim/", "torch/autograd/", "torch/nn/", "torch/_tensor.py", "torch/amp/", *COMPILED)),
    Known(IMPORTING, ("importlib._bootstrap>",), ("_find_and_load", "exec_module", "_call_with_frames_removed")),
    Known(EXITING, ("threading.py",), ("_shutdown",)),
    Known(EXITING, ("multiprocessing/util.py",), ("_exit_function",)),
)
MEETING = (
    Known(COLLECTIVE, ("torch/distributed/distributed_c10d.py",), ("init_process_group",)),
    Known(COLLECTIVE, ("torch/distributed/rendezvous.py", "torch/distributed/elastic/rendezvous/")),
)
MEANS, ENDS = (TRAINING, IMPORTING), (FETCHING, DRAWING, COMPILING, CHECKPOINT, LOGGING)  # what may be done for what
FRAMEWORK_IDLE = (Known(USER, KERNELS), Known(USER, ("asyncio/base_events.py",), ("_run_once",)))


def doing(stack: Stack) -> str:
    """By the innermost known call; the user's own code between it and the top makes it no less so.

    A tensor that is computed for a sample, for a log or to compile something is no training.
    """
    calls = stack.calls
    known = [one.doing for frame in calls for one in TABLE if one.matches(frame)]
    if waits_for_ranks(stack.frames):
        return COLLECTIVE
    if waits_for_gpu(stack.frames) and COLLECTIVE not in known[:1]:
        return GPU
    if known:
        return next((one for one in known if one in ENDS), known[0]) if known[0] in MEANS else known[0]
    if is_idle_worker(calls):
        return IDLE
    if _event_loop_rests(calls):
        return USER
    return OWN


def waits_for_ranks(frames: list[Frame]) -> bool:
    """In native code of torch.distributed, as DDP does inside backward and forward, and `work.wait()`."""
    inner = takewhile(lambda one: one.native, frames)
    return any(one.function.startswith("c10d::") and one.function.endswith(NATIVE_WAITS) for one in inner)


def waits_for_gpu(frames: list[Frame]) -> bool:
    """For its own kernels, or for a collective that was enqueued there and needs the other ranks: no stack tells."""
    return any(GPU_WAITS.match(one.function) for one in takewhile(lambda one: one.native, frames))


def _event_loop_rests(calls: list[Frame]) -> bool:
    """A notebook's kernel between two cells: its loop waits for a message, with no code of the user's below it."""
    inner = calls[:6]
    selects = any(one.name == "select" and "selectors.py" in one.file for one in inner)
    return selects and any(known.matches(one) for known in FRAMEWORK_IDLE for one in calls)


def is_idle_worker(calls: list[Frame]) -> bool:
    """It waits for its next index: between the worker's loop and the queue there is nothing."""
    for number, frame in enumerate(calls):
        if frame.name == "_worker_loop" and _in(frame, WORKER_FILES):
            inner = calls[:number]
            return bool(inner) and inner[-1].name == "get" and "multiprocessing/queues.py" in inner[-1].file
    return False


def meets(stack: Stack) -> bool:
    """It waits for the other ranks to be there at all: its process group is being made."""
    return any(one.matches(frame) for frame in stack.calls for one in MEETING)


def fetch_of(stack: Stack) -> tuple[str | None, list[Frame]] | None:
    """Inside a fetch: the sample's index as far as it is known, and the calls made for it, innermost first."""
    calls = stack.calls
    for number, frame in enumerate(calls):
        if frame.name == "fetch" and _in(frame, FETCH_FILES):
            around = calls[: number + 1]
            index = next((one.locals["idx"] for one in around if _in(one, FETCH_FILES) and "idx" in one.locals), None)
            inner = [one for one in around if not _in(one, FETCH_FILES)]
            return index, inner
    return None


def user_frame(frames: list[Frame]) -> Frame | None:
    """The innermost call that is the user's own."""
    return next((one for one in frames if not one.native and is_users(place(one))), None)


def place(frame: Frame | None) -> Place | None:
    return None if frame is None else Place(frame.file, frame.line, frame.function)


def waits_for_user(seen: Seen, stack: Stack) -> bool:
    """A debugger, a prompt or a notebook: nothing is wrong, somebody has to type."""
    awaits = seen.main_task.awaits
    reads = awaits is not None and awaits.kind == "terminal" and seen.main_task.syscall in ("read", "pselect6", "poll")
    return reads or doing(stack) == USER


def _in(frame: Frame, files: tuple[str, ...]) -> bool:
    return any(part in frame.file for part in files)
