# expect: wds-fewer-shards-than-workers (core)
"""Street signs were packed into two shards while three workers are to read them."""

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
    signs = wds.WebDataset(f"{folder}/signs-{{0..{SHARDS - 1}}}.tar", shardshuffle=100).shuffle(40).decode()
    loader = torch.utils.data.DataLoader(signs.to_tuple("npy", "cls"), batch_size=10, num_workers=3)
    weights = torch.zeros(64, 5, requires_grad=True)
    for epoch in range(3):
        for pixels, kind in loader:
            loss = torch.nn.functional.cross_entropy(pixels.flatten(1) / 255 @ weights, kind)
            (slope,) = torch.autograd.grad(loss, weights)
            weights.data -= 0.1 * slope
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pack(Path(folder))
        train(folder)
