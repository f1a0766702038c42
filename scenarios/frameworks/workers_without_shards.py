# expect: workers-without-shards
"""A corpus of two files is streamed by four workers: two of them never see a document."""

import time

import datasets
import torch
from torch.utils.data import DataLoader

datasets.disable_progress_bars()
WORDS = 32


def encode(document: dict) -> dict:
    time.sleep(0.02)  # a remote tokeniser
    return {"tokens": [(document["number"] * 7 + place) % 97 for place in range(WORDS)]}


def main() -> None:
    documents = datasets.Dataset.from_dict({"number": list(range(640))})
    stream = documents.to_iterable_dataset(num_shards=2).map(encode, remove_columns=["number"]).with_format("torch")
    loader = DataLoader(stream, batch_size=16, num_workers=4)
    table = torch.nn.Parameter(torch.zeros(97, 8))
    for batch in loader:
        loss = (table[batch["tokens"]].mean(dim=1) - 1).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            table -= 0.1 * table.grad
            table.grad = None
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
