# expect: healthy
"""The same two files and four workers, and a model that takes longer than loading: the two idle workers cost nothing."""

import time

import datasets
import torch
from torch.utils.data import DataLoader

datasets.disable_progress_bars()
WORDS = 32


def encode(document: dict) -> dict:
    time.sleep(0.002)
    return {"tokens": [(document["number"] * 7 + place) % 97 for place in range(WORDS)]}


def main() -> None:
    documents = datasets.Dataset.from_dict({"number": list(range(480))})
    stream = documents.to_iterable_dataset(num_shards=2).map(encode, remove_columns=["number"]).with_format("torch")
    loader = DataLoader(stream, batch_size=16, num_workers=4)
    table = torch.nn.Parameter(torch.zeros(97, 8))
    for batch in loader:
        loss = (table[batch["tokens"]].mean(dim=1) - 1).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            table -= 0.1 * table.grad
            table.grad = None
        time.sleep(0.15)  # the rest of the model, on a device
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
