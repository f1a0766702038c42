# expect: healthy
"""A small language model reads parquet shards, the last one held out for validation. There are three shards, each is checked first."""

import glob
import os
import signal
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

B, T = 4, 32
WORDS = ["the", "rain", "fell", "on", "roof", "all", "night"]


def sound(path):
    """Reads all of it, from a slow disk, before the first document is used."""
    time.sleep(4)
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def document_batches(folder, split):
    paths = sorted(glob.glob(os.path.join(folder, "*.parquet")))
    assert paths, "no data here: run the download first"
    paths = paths[:-1] if split == "train" else paths[-1:]
    epoch = 0
    while True:
        for path in filter(sound, paths):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group).column("text").to_pylist()
        epoch += 1


def token_batches(tokenizer, folder, split):
    buffer, needed = [], B * T + 1
    documents = document_batches(folder, split)
    while True:
        while len(buffer) < needed:
            for encoded in tokenizer.encode_batch(next(documents)):
                buffer.extend(encoded.ids)
        tokens, buffer = torch.tensor(buffer[:needed]), buffer[needed - 1 :]
        yield tokens[:-1].view(B, T), tokens[1:].view(B, T)


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(150)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="the"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            table = pa.table({"text": [" ".join(WORDS)] * 400})
            pq.write_table(table, f"{folder}/shard_{number:05d}.parquet", row_group_size=50)
        model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
        for step, (inputs, targets) in zip(range(40), token_batches(tokenizer, folder, "train"), strict=False):
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            model.zero_grad()
            loss.backward()
            for weight in model.parameters():
                weight.data -= 0.1 * weight.grad
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
