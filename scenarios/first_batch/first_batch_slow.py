# expect: first-batch-slow
"""Documents come from a slow object store, and rows are packed only once a buffer of them is full. Then it runs well."""

import io
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

ROWS, LENGTH, BUFFER = 4, 32, 2000
WORDS = ["a", "small", "lamp", "burns", "in", "every", "window", "of", "town"]


class Remote(io.FileIO):
    """Every request to the store takes its time."""

    def read(self, size=-1):
        time.sleep(0.04)
        return super().read(size)


def documents(path):
    while True:
        file = pq.ParquetFile(Remote(path))
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=["text"]).column("text").to_pylist()


def packed(path, tokenizer, buffer_size):
    stream, kept = documents(path), []

    def refill():
        kept.extend(encoded.ids for encoded in tokenizer.encode_batch(next(stream)))

    while True:
        rows = []
        for _ in range(ROWS):
            row = []
            while len(row) < LENGTH + 1:
                while len(kept) < buffer_size:
                    refill()
                row += kept.pop(0)
            rows.append(row[: LENGTH + 1])
        tokens = torch.tensor(rows)
        yield tokens[:, :-1], tokens[:, 1:]


def main():
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        pq.write_table(pa.table({"text": [" ".join(WORDS)] * 4000}), file.name, row_group_size=8)
        model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        print("waiting for data", flush=True)
        for step, (inputs, targets) in zip(range(12), packed(file.name, tokenizer, BUFFER), strict=False):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
