# expect: loader-always-slow
"""Each batch is packed from documents that a Python plug-in of the tokenizer looks up one by one. It never warms up."""

import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models
from tokenizers.pre_tokenizers import PreTokenizer

B, T, STEPS = 4, 32, 7
WORDS = ["snow", "lies", "deep", "on", "the", "mountain", "pass"]
LOOK_UP = 0.05


class Glossary:
    """Asks a service for each document where its words begin."""

    def pre_tokenize(self, document):
        time.sleep(LOOK_UP)
        document.split(lambda number, text: text.split(" ", "removed"))


def token_batches(path, tokenizer):
    buffer, needed = [], B * T + 1
    while True:
        for rows in pq.ParquetFile(path).iter_batches(batch_size=4):
            for text in rows.column("text").to_pylist():
                buffer += tokenizer.encode(text).ids
            while len(buffer) >= needed:
                tokens = torch.tensor(buffer[:needed])
                del buffer[: needed - 1]
                yield tokens[:-1].view(B, T), tokens[1:].view(B, T)


def main():
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="the"))
    tokenizer.pre_tokenizer = PreTokenizer.custom(Glossary())
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        pq.write_table(pa.table({"text": [" ".join(WORDS)] * 2000}), file.name, row_group_size=200)
        model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, (inputs, targets) in zip(range(STEPS), token_batches(file.name, tokenizer), strict=False):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
