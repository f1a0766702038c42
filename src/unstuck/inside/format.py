"""The recording's file format, described once for the writer inside and the reader outside.

A recording is one file of little-endian 8-byte words, written by one process through a shared mapping and read by
others at any moment, also after `kill -9`:

    header | board | totals | ring | notes | strings | last words

Whatever may be read while it is written is guarded. A board entry holds two copies and a version word whose lowest
bit names the valid one. A ring slot's sequence word is zeroed first and written last. Strings and last words are
published by a length word that is stored after the bytes. The magic word of the header is stored last of all.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = int.from_bytes(b"UNSTUCK\x01", "little")
VERSION = 1
WORD = 8
MASK = (1 << 64) - 1

# Header words.
H_MAGIC, H_VERSION, H_SIZE, H_PID, H_STARTED, H_PARENT = range(6)
H_ROLE, H_RANK, H_LOCAL_RANK, H_WORLD, H_WORKER, H_WORKERS = range(6, 12)
H_MONOTONIC, H_WALL, H_ENDED, H_ENDED_HOW, H_STRINGS_USED, H_LAST_WORDS = range(12, 18)
H_COST, H_COST_COUNT, H_COST_MAX, H_STRINGS_LOST = range(18, 22)
H_STEPS, H_STEP_AT = range(22, 24)  # optimizer steps so far, and when the newest ended
H_SECTIONS = 24  # offset and count (of entries, slots, records, records, bytes, bytes) of each section
H_STACK_SIGNAL = 36  # at this signal the process writes its stacks down; 0: at none
H_FORK_THREADS, H_FORK_NAMES = range(37, 39)  # the parent's threads at the fork (0: no fork); names (string, JSON)
H_ATTEMPT = 39  # of the run, as its launcher counts: restarts of torchelastic, requeues of Slurm in thousands
H_ASK = 40  # descriptor of the pipe at which the Flight Recorder can be asked for, plus one; 0: it cannot
H_IMPORTED = 41  # when `import torch` was through
H_MODEL_BEGUN, H_MODEL_ENDED, H_PARAMETERS, H_ELEMENTS = range(42, 46)  # first and newest parameter of a module
H_FIRST_SAMPLE = 46  # when the first sample of this process was loaded
H_ALLOWED = 47  # processors that this process might run on when its recording was opened
H_WORDS = 48
HEADER_SIZE = 4096

# Roles. RANK, WORKER and the like are stored plus one, so that 0 means "none".
ROLE_OTHER, ROLE_MAIN, ROLE_WORKER, ROLE_LAUNCHER = range(4)
ROLES = ("other", "main", "worker", "launcher")

# How a process said goodbye. 0: it did not.
ENDED_EXIT, ENDED_LOOP, ENDED_RUN = range(1, 4)
ENDINGS = ("", "interpreter exit", "worker loop returned", "process function returned")

# Board: a version word and live words, then two copies of eight words and a text.
# The live words change with every batch and sample. Each is one store of its own: the phase with the time since when,
# then numbers that may be a moment ahead of it. They count if they are newer than the valid copy.
BOARD_TEXT = 256
BOARD_COPY = 8 * WORD + BOARD_TEXT
BOARD_ENTRY = 8 * WORD + 2 * BOARD_COPY
B_KIND, B_KEY, B_SINCE, B_A, B_B, B_C, B_D, B_TEXT_LENGTH = range(8)
L_PHASE, L_ONE, L_TWO, L_THREE = range(1, 5)
LOADER_WAITS, LOADER_BODY = range(2)  # live: batches in all, optimizer steps
FETCH_BEGINS, FETCH_SAMPLE, FETCH_COLLATE, FETCH_IDLE = range(4)  # live: index, batches, samples

# Totals: kind, key, sum, max, then a histogram over the bit length of the nanoseconds, whose sum is the count.
TOTAL_BUCKETS = 64
TOTAL_WORDS = 4 + TOTAL_BUCKETS
T_KIND, T_KEY, T_SUM, T_MAX, T_BUCKETS = range(5)

# Ring: sequence, kind, key, start, duration, a, b, c. Notes are a second ring of the same records, for what is rare and
# must not be pushed out by what is frequent.
RING_WORDS = 8
R_SEQUENCE, R_KIND, R_KEY, R_START, R_DURATION, R_A, R_B, R_C = range(8)


class Kind:
    """What an event, a total or a board entry is about. `a`, `b`, `c` (`d` on the board) mean what stands behind it."""

    LOADER = 1  # notes: a description (string)
    ITERATOR = 2  # ring and notes: a pass, b workers, c MODES, and the loader's optimizer steps so far above them
    ITERATOR_FAILED = 3  # notes: a pass, b message (string)
    WORKER = 4  # notes: a pid, b worker
    WAIT = 5  # ring: a batch, b pass, c nanoseconds of the body before; board: b pass, and the live words
    FIRST_WAIT = 6  # totals
    BODY = 7  # totals; board as WAIT: the batch has arrived and the loop's body runs
    PASS_END = 8  # ring, and the first notes: a batches, b pass, c the loader's optimizer steps so far
    FETCH = 9  # ring: a samples, b nanoseconds of collate, c first index; board: a batches, b samples, c index
    SAMPLE = 10  # ring: a index, b position in the stream; board as FETCH, with the index as text if no number
    COLLATE = 11  # totals; board as FETCH
    HANDOVER = 12  # totals; ring: a bytes
    IDLE = 13  # totals; board as FETCH: the worker waits for its next index
    OPTIMIZER = 14  # notes: the first step, a type of the optimizer (string), b device of its parameters (string)
    STAGE = 15  # totals and ring by name; board: a 1 while it is open, the item as text
    PROGRESS = 16  # board: a have, b need, c unit (string), d first told * 2, + 1 once it went down; notes: first rise
    EXIT = 17  # notes: a pid, b status as multiprocessing gives it, c how it was learned
    EXCEPTION = 18  # notes: a type (string)
    ADAPTER_FAILED = 19  # notes: a what happened (string)
    LENGTH = 20  # notes: a length of the dataset plus one, b length of the loader plus one
    FETCH_CPU = 21  # totals: processor time of the fetching thread
    HANDED = 23  # notes: a batch that was looked at; the batch as duration, a tensors, b bytes, c bytes of storage
    STATE = 24  # notes: a pass, b 1 after its first batch, c a dataset's numbers and generators (string, JSON)
    DIGESTS = 25  # notes: a pass, c what stands for the content of its first batches (string, JSON)
    DROPPED = 26  # notes: a samples of a batch that remained incomplete
    GRAPH = 27  # notes: a step, b nodes, c the rest (string, JSON)
    RESUMED = 28  # notes: a saved state was loaded into the loader
    SENT = 29  # notes: a bytes that were written while workers were started
    METRIC = 31  # ring: a step plus one (0: not told), b bits of the value as a double; board: the same, the newest
    # The first in notes, then ring, by path (string): a how it was saved and the inode above, b bytes plus one, c the
    # line (string); board: a since when while it goes on, b the line, the path as text.
    SAVE = 32
    GROUP = 33  # notes: the process group is made; a facts (string, JSON), b 1 once it is, 2 if it failed
    SPAN = 34  # ring by name and line (string): a 1 if an exception left it; board: a 1 while it is open
    WRAPPED = 35  # notes: a model was made distributed, a facts (string, JSON)
    PREPARED = 36  # notes: accelerate has prepared a loader, a facts (string, JSON), b the loader's number
    SAMPLING = 37  # notes: by loader, a distributed sampler at the beginning of pass a, b facts (string, JSON)
    PHASE = 38  # as SAVE, and board, by name: what the user says comes now; a 1 while it lasts, b how often before
    CALL = 39  # ring, totals by what, name and line (string): a 1 if an exception left it; board: a 1 while it is open
    # Totals by kind, name, threads and line (string). Notes: the first call. Ring: calls of a short time together, a
    # items, b made, c calls. Board: a items shifted left by one, and 1 while a call goes on, b made, c looked at, d
    # blank. Made are tokens, or row groups.
    SOURCE = 40
    DATA_FILE = 41  # notes by path and place in a list (string), times as duration: a groups, b rows, c bytes plus one
    EARLY = 42  # notes: a wait for one of the first batches of a loader's first pass, a batch, b its look (string)
    SLOWEST = 43  # notes by stage: the longest so far, a item (string), b index plus one
    LOGGER = 44  # notes: a facts (string, JSON); board: a not committed, b values lost, c calls queued, d never given
    COMPILED = 45  # notes: a facts (string, JSON)
    DRAWING = 46  # totals by loader: indices from its sampler
    STAGE_CPU = 47  # totals by name: processor time
    SAVE_FAILED = 48  # notes by path (string): a facts (string, JSON), b how, c the line (string)
    HELD = 49  # notes: samples that a stream holds back when the first batch of pass a is there, b which (string, JSON)
    FRAMEWORK = (
        50  # notes by number: what a trainer of a framework was told to do, a facts (string, JSON); again at its end
    )
    # Notes by facts (string, JSON): this process's part of a list of files or shards, a pass; again when a pass has
    # ended, b files of this process plus one, and the most samples of one shifted left by 32, c samples of the pass.
    # Board, by the same facts: a opened, b gone through to the end, c samples, d errors, the newest of them as text.
    SHARDS = 51
    # Notes by SHARDS (string): a facts (string, JSON), b samples of this shard before, c ns slept. Again without facts
    # when the shard is left: b samples of it in all, c the most samples of another; or, with a duration, when it could
    # be read after all.
    SHARD_ERROR = 52
    BUCKETS = 53  # notes: a facts (string, JSON), b the loader's number, if it is known
    NOTE = 54  # notes by tag (string): a facts (string, JSON)
    # Notes by loader, when it begins: a batches to be passed over (0: not known), b who does so (string). Board: a so
    # far, b in all, c who, d how they are counted and, above that, nanoseconds that it took.
    SKIPPING = 55
    THREADS = 56  # notes: how threads are set up when the first pass begins, a facts (string, JSON)
    SHARED = 57  # notes by loader: what several threads would have shared of some batches, a facts (string, JSON)
    SHARD_SHORT = 58  # notes by SHARDS (string): a file (string) that gave b samples, fewer than c, the most of another
    # Totals, of just those fetches and stages whose processor time was taken: how long they took, and in a stage the
    # bytes that were asked for and those that came from a disk.
    FETCH_TIMED, STAGE_TIMED, STAGE_READ, STAGE_FETCHED = 59, 60, 61, 62
    VERSIONS = 63  # notes: of torch and libraries beside it, a versions (string, JSON)
    SHUTDOWN = 22  # totals; ring: a pass (0: it goes on), b workers; board as LOADER: its workers are being ended


APART = "\n"  # between the parts of a string that names a call, a span or a source, and its line
GARBAGE = "garbage collection"  # name of the calls that are pauses of the collector itself
EXIT_REAPED, EXIT_PEEKED = 1, 2
# How something was saved: by torch.distributed.checkpoint, by safetensors (else by torch.save); in the background; and
# the time for which saving in the background held up the training before it went on.
SAVED_TOGETHER, SAVED_SAFETENSORS, SAVED_ASIDE, SAVED_HELD = 1, 2, 4, 8
SAVED_BITS = 4
SAVED_STEP = 32  # bits of c below the number of optimizer steps before a save: those of the line
SAVERS = ("torch.save", "torch.distributed.checkpoint", "safetensors")  # by the lowest two of them
THREAD = "unstuck: answers for the Flight Recorder"  # name of the one thread of ours, which holds nothing
WORKER_INIT = "worker_init_fn"  # as a stage of a worker
SAMPLE_TIMES = "UNSTUCK_SAMPLE_TIMES"  # variable: a line in the log about every sample and stage
MODE_NO_GRAD, MODE_EVAL = 1, 2  # bits of an iterator's beginning: gradients are off; the model was set to evaluate
MODE_BITS = 2
# How batches that are passed over are counted (0: it is over): one by one, or by those of the loader's newest pass.
SKIPPED_ONE_BY_ONE, SKIPPED_BY_LOADER = 1, 2
SKIPPED_BITS = 2


class Layout(NamedTuple):
    """How many entries each section has."""

    board: int
    totals: int
    ring: int
    notes: int
    strings: int
    last_words: int

    def sections(self) -> list[tuple[int, int]]:
        """Offset in bytes and count of every section, in file order."""
        sizes = (
            self.board * BOARD_ENTRY,
            self.totals * TOTAL_WORDS * WORD,
            self.ring * RING_WORDS * WORD,
            self.notes * RING_WORDS * WORD,
            self.strings,
            self.last_words,
        )
        found = []
        offset = HEADER_SIZE
        for size, count in zip(sizes, self, strict=True):
            found.append((offset, count))
            offset += size
        return found

    def size(self) -> int:
        offset, count = self.sections()[-1]
        return offset + count


S_BOARD, S_TOTALS, S_RING, S_NOTES, S_STRINGS, S_LAST_WORDS = range(6)

MAIN_LAYOUT = Layout(board=64, totals=256, ring=32768, notes=4096, strings=512 * 1024, last_words=64 * 1024)
WORKER_LAYOUT = Layout(board=32, totals=64, ring=2048, notes=128, strings=32 * 1024, last_words=16 * 1024)
# Of a worker, where a line about every sample is asked for: it has the name of each item.
DETAILED_LAYOUT = WORKER_LAYOUT._replace(ring=8192, strings=512 * 1024)


class RecordingName(NamedTuple):
    """Whose recording a file is, by its name: a process is who it is by node, pid and start time."""

    node: str
    parent: int
    pid: int
    started: int  # ticks since its machine started


def recording_name(file: str) -> RecordingName | None:
    """None: it is no name that a recorded process would give."""
    words = file.rsplit(".", 4)
    if len(words) != 5 or words[4] != "rec" or not all(one.isdecimal() and one.isascii() for one in words[1:4]):
        return None
    node, parent, pid, started, _ = words
    return RecordingName(node, int(parent), int(pid), int(started)) if max(map(len, words[1:4])) <= 19 else None
