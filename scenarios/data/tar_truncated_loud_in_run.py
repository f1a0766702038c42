# expect: tar-truncated-loud
"""Leaves were photographed into four shards. The upload of one broke off within a picture, and training dies of it."""

import tempfile
from pathlib import Path

import numpy as np
import torch
import webdataset as wds

SHARDS, LEAVES = 4, 25


def collect(folder):
    draw = np.random.default_rng(5)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"leaves-{number}.tar")) as shard:
            for leaf in range(LEAVES):
                shard.write({"__key__": f"{number}_{leaf:03d}", "npy": draw.random((8, 8)), "cls": leaf % 2})
    broken = folder / "leaves-2.tar"
    data = broken.read_bytes()
    broken.write_bytes(data[: data.index(b"2_014.npy") + 512 + 200])


def train(folder):
    shards = wds.WebDataset(f"{folder}/leaves-{{0..{SHARDS - 1}}}.tar", shardshuffle=False, empty_check=False)
    loader = wds.WebLoader(shards.decode().to_tuple("npy", "cls").batched(5), batch_size=None, num_workers=1)
    weight = torch.zeros((), requires_grad=True)
    for pictures, kinds in loader:
        bright = torch.as_tensor(np.stack(pictures)).float().mean((1, 2))
        loss = ((bright * weight - torch.as_tensor(kinds)) ** 2).mean()
        (slope,) = torch.autograd.grad(loss, weight)
        weight.data -= 0.1 * slope
    print(f"loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    where = Path(tempfile.mkdtemp())  # it stays: whoever looks for the cause reads the shard again
    collect(where)
    train(where)
