# expect: healthy
"""Seismograms lie in six shards. The last one is shorter, because no more were recorded: nothing is wrong."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import webdataset as wds

SHARDS, TRACES = 6, 30


def record(folder):
    draw = np.random.default_rng(11)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"quake-{number:03d}.tar")) as shard:
            for trace in range(TRACES if number < SHARDS - 1 else 7):
                wave = draw.normal(size=48).astype(np.float32)
                shard.write({"__key__": f"q{number}t{trace:04d}", "wave.npy": wave, "mag.cls": trace % 3})


def train(folder):
    shards = wds.WebDataset(f"{folder}/quake-{{000..{SHARDS - 1:03d}}}.tar", shardshuffle=False, empty_check=False)
    waves = shards.decode().to_tuple("wave.npy", "mag.cls").batched(6)
    loader = wds.WebLoader(waves, batch_size=None, num_workers=2)
    weights = torch.zeros(48, 3, requires_grad=True)
    for epoch in range(2):
        loss = torch.zeros(())
        for wave, magnitude in loader:
            loss = torch.nn.functional.cross_entropy(torch.as_tensor(wave) @ weights, torch.as_tensor(magnitude))
            (slope,) = torch.autograd.grad(loss, weights)
            weights.data -= 0.1 * slope
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    where = Path(tempfile.mkdtemp())  # it stays: whoever looks for the cause reads the shard again
    record(where)
    train(where)
