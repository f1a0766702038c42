"""The measured program: training loops and one worker, timed by their own clocks, a block at a time, when asked.

It is started as it is, recorded, logging, or under TraceML, and knows only torch. It connects to the benchmark's
socket, and so does its worker; asked for a loop, each answers with the median time of a step (of a sample), in µs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import socket
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, dataloader
from torch.utils.data._utils.fetch import _MapDatasetFetcher

clock = time.perf_counter_ns
BATCH = 4
BODY = 1_000_000  # ns
STEPS = {"ready": 300, "tiny": 100, "workers": 50, "no workers": 50, "on average": 512}  # in a block
WARM = 5  # steps at the beginning of a block that do not count
SAMPLES = {"samples 32": 32, "samples 256": 256}  # in a batch
BLOCK_OF_SAMPLES = 4096


class Numbers(Dataset):
    """Samples that cost next to nothing. With a log: one line for each, with the time it took."""

    def __init__(self, length, log=None):
        self.length, self.log = length, log

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.log is None:
            return index
        start = clock()
        sample = index
        lines(self.log).info("sample %d took %.6f s", index, (clock() - start) / 1e9)
        return sample


class ReadyLoader(DataLoader):
    """Its batch has always arrived, so that a step consists of hooks and little else."""

    def _get_iterator(self):
        iterator = dataloader._SingleProcessDataLoaderIter(self)
        iterator._next_data = lambda: 0
        return iterator


@functools.cache
def lines(path):
    logger = logging.getLogger(path)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger


def as_it_is(batch):
    return batch


class Training:
    def __init__(self, how, log, rounds):
        self.log = lines(log) if log else None
        self.model = torch.nn.Linear(16, 16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.inputs = torch.ones(4, 16)
        self.cache = torch.zeros(1 << 18)  # 1 MiB: a body that leaves the processor's nearest caches cold
        self.around = around(how, self.model)
        self.tiny_body()
        ready = iter(ReadyLoader(Numbers(1)))
        self.loops = {"ready": (ready, self.bare_body), "tiny": (ready, self.tiny_body)}
        for name, workers, body in (
            ("workers", 2, self.long_body),
            ("no workers", 0, self.long_body),
            ("on average", 0, self.bare_body),
        ):
            data = Numbers((rounds + 1) * STEPS[name] * BATCH, log)
            loader = DataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=as_it_is)
            self.loops[name] = (iter(loader), body)

    def bare_body(self):
        self.optimizer.step()
        return 0

    def tiny_body(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs).sum().backward()
        self.optimizer.step()
        return 0

    def long_body(self):
        """1 ms that is not counted, because its own noise is larger than what is looked for."""
        start = clock()
        while clock() - start < BODY:
            self.cache.add_(1)
        left_out = clock() - start
        self.optimizer.step()
        return left_out

    def block(self, name):
        iterator, body = self.loops[name]
        times = []
        begun = clock()
        for number in range(STEPS[name]):
            next(iterator)
            arrived = clock()
            with self.around():
                left_out = body()
            if self.log is not None:
                waited, took = (arrived - begun) / 1e9, (clock() - arrived) / 1e9
                self.log.info("step %d waited %.6f s, body %.6f s", number, waited, took)
            now = clock()
            times.append(now - begun - left_out)
            begun = now
        # What is written down late lies in one step of many: only an average has it in it.
        typical = statistics.fmean if name == "on average" else statistics.median
        return typical(times[WARM:]) / 1e3


def around(how, model):
    """What the loop's author writes around a step: nothing, or what TraceML's documentation says."""
    if not how.startswith("traceml"):
        return contextlib.nullcontext
    import traceml_ai

    if how == "traceml":
        traceml_ai.init(mode="auto")
    else:
        traceml_ai.init(mode="selective", patch_dataloader=True)
    return functools.partial(traceml_ai.trace_step, model)


def block_of_samples(log, name):
    size = SAMPLES[name]
    fetcher = _MapDatasetFetcher(Numbers(size, log), True, as_it_is, False)  # noqa: FBT003
    fetcher.fetch(list(range(size)))
    times = []
    for _ in range(BLOCK_OF_SAMPLES // size):
        start = clock()
        fetcher.fetch(list(range(size)))
        times.append(clock() - start)
    return statistics.median(times) / size / 1e3


def serve(door, part, block):
    """Answer until the benchmark hangs up."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(door)
        stream = line.makefile("rw")
        print(json.dumps({"part": part, "pid": os.getpid()}), file=stream, flush=True)
        for name in stream:
            print(json.dumps(block(name.strip())), file=stream, flush=True)


def serve_samples(door, log, _worker):
    """Run by a DataLoader's worker when it starts: the real fetcher, in a real worker, by the worker's clock."""
    serve(door, "worker", functools.partial(block_of_samples, log))


def main(door, how, rounds, log):
    torch.set_num_threads(1)
    path = log if how == "logging" else None
    worker = functools.partial(serve_samples, door, path)
    samples = iter(DataLoader(Numbers(1), num_workers=1, worker_init_fn=worker, collate_fn=as_it_is))
    training = Training(how, path, rounds)
    serve(door, "main", training.block)
    training.loops.clear()
    next(samples)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
