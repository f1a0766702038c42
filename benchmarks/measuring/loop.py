"""The measured program: three training loops and one worker, each timed by its own clock. Knows only torch.

It is started as it is, recorded, logging, or under TraceML, and writes what it measured to a file as JSON:
medians, in µs, of blocks of steps (of samples).
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset, dataloader
from torch.utils.data._utils.fetch import _MapDatasetFetcher

clock = time.perf_counter_ns
BATCH = 4
BODY = 1_000_000  # ns
BLOCK = 100  # steps
FETCHES = (32, 256)  # samples in a batch


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
    def __init__(self, how, log):
        self.log = lines(log) if log else None
        self.model = torch.nn.Linear(16, 16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.001)
        self.inputs = torch.ones(4, 16)
        self.cache = torch.zeros(1 << 18)  # 1 MiB: a body that leaves the processor's nearest caches cold
        self.around = around(how, self.model)
        self.compute()

    def compute(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs).sum().backward()
        self.optimizer.step()

    def bare_body(self):
        self.optimizer.step()
        return 0

    def full_body(self):
        """A step with a body of 1 ms, which is not counted: its own noise is larger than what is looked for."""
        start = clock()
        while clock() - start < BODY:
            self.cache.add_(1)
        left_out = clock() - start
        self.compute()
        return left_out

    def steps(self, loader, count, body):
        iterator = iter(loader)
        times = []
        begun = clock()
        for number in range(count):
            next(iterator)
            arrived = clock()
            with self.around():
                left_out = body()
            if self.log is not None:
                self.log.info(
                    "step %d waited %.6f s, body %.6f s", number, (arrived - begun) / 1e9, (clock() - arrived) / 1e9
                )
            now = clock()
            times.append(now - begun - left_out)
            begun = now
        return [statistics.median(times[at : at + BLOCK]) / 1e3 for at in range(BLOCK, count, BLOCK)]


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


def time_samples(path, log, blocks, worker):
    """Run by a DataLoader's worker when it starts: the real fetcher, in a real worker, by the worker's clock."""
    fetched = {}
    for size in FETCHES:
        fetcher = _MapDatasetFetcher(Numbers(size, log), True, as_it_is, False)  # noqa: FBT003
        repeats = 2048 // size
        fetched[size] = times = []
        for _ in range(blocks):
            start = clock()
            for _ in range(repeats):
                fetcher.fetch(list(range(size)))
            times.append((clock() - start) / repeats / size / 1e3)
    with open(path, "w") as file:
        json.dump(fetched, file)


def measure(out, how, scale):
    torch.set_num_threads(1)
    log = f"{out}.log" if how == "logging" else None
    training = Training(how, log)
    found = {"ready": training.steps(ReadyLoader(Numbers(1)), 20 * scale, training.bare_body)}
    for name, workers in (("workers", 2), ("no workers", 0)):
        data = Numbers(10 * scale * BATCH, log)
        loader = DataLoader(data, batch_size=BATCH, num_workers=workers, collate_fn=as_it_is)
        found[name] = training.steps(loader, 10 * scale, training.full_body)
    if not how.startswith("traceml"):  # it does not time samples
        init = functools.partial(time_samples, f"{out}.samples", log, scale // 2)
        next(iter(DataLoader(Numbers(1), num_workers=1, worker_init_fn=init, collate_fn=as_it_is)))
        with open(f"{out}.samples") as file:
            found.update((f"samples {size}", times) for size, times in json.load(file).items())
    with open(out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))
