# expect: healthy
"""Street signs in two shards, and three workers: each draws shards at random, so nobody goes without, and an epoch is a
number of batches."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import webdataset as wds

SHARDS, SIGNS = 2, 50


def pack(folder):
    rng = np.random.default_rng(1)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"signs-{number}.tar")) as shard:
            for sign in range(SIGNS):
                pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
                shard.write({"__key__": f"{number}{sign:03d}", "npy": pixels, "cls": sign % 5})


def train(folder):
    urls = f"{folder}/signs-{{0..{SHARDS - 1}}}.tar"
    signs = wds.WebDataset(urls, resampled=True).shuffle(40).decode().to_tuple("npy", "cls").batched(10)
    loader = wds.WebLoader(signs, batch_size=None, num_workers=3).with_epoch(12)
    weights = torch.zeros(64, 5, requires_grad=True)
    for epoch in range(2):
        for pixels, kind in loader:
            inputs = torch.as_tensor(pixels).flatten(1) / 255
            loss = torch.nn.functional.cross_entropy(inputs @ weights, torch.as_tensor(kind))
            (slope,) = torch.autograd.grad(loss, weights)
            weights.data -= 0.1 * slope
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        train(folder)
