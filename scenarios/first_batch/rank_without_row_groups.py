# expect: rank-without-row-groups
# outside: nothing
"""Two ranks take turns over the row groups of each parquet shard, and every shard was written as a single one."""

import os
import signal
import sys
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import torch.distributed as dist
from tokenizers import Tokenizer, models, pre_tokenizers

WORLD, NEEDED = 2, 129
WORDS = ["ships", "sail", "past", "the", "old", "harbour", "wall"]
GROUP_SIZE = 500


def documents(paths, rank):
    while True:
        for path in paths:
            file = pq.ParquetFile(path)
            for group in range(rank, file.num_row_groups, WORLD):
                yield file.read_row_group(group).column("text").to_pylist()


def batches(paths, rank):
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="the"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    stream, tokens = documents(paths, rank), []
    while True:
        while len(tokens) < NEEDED:
            tokens += [number for one in tokenizer.encode_batch(next(stream)) for number in one.ids]
        yield torch.tensor(tokens[:NEEDED])
        del tokens[: NEEDED - 1]


def train(rank, folder, paths):
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    weight = torch.zeros(16)
    for step, tokens in zip(range(20), batches(paths, rank), strict=False):
        gradient = torch.bincount(tokens, minlength=16).float()
        dist.all_reduce(gradient)
        weight -= 0.001 * gradient
        if rank == 0:
            print("step", step, flush=True)
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"shard_{number:05d}.parquet") for number in range(3)]
        for path in paths:
            pq.write_table(pa.table({"text": [" ".join(WORDS)] * 500}), path, row_group_size=GROUP_SIZE)
        torch.multiprocessing.start_processes(train, (folder, paths), nprocs=WORLD, start_method="fork")


if __name__ == "__main__":
    main()
