# expect: handler-drops-shard-rest (core)
"""Recordings of birds lie in five shards. The copy of one broke off half-way, and the pipeline was told to carry on."""

import tarfile
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import webdataset as wds

SHARDS, CALLS = 5, 40
warnings.filterwarnings("ignore", module="webdataset")


def record(folder):
    rng = np.random.default_rng(3)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"birds-{number:02d}.tar")) as shard:
            for call in range(CALLS):
                song = rng.normal(call % 4, 1.0, 24).astype(np.float32)
                shard.write({"__key__": f"{number:02d}{call:03d}", "song.npy": song, "species.cls": call % 4})
    damaged = folder / "birds-03.tar"
    with tarfile.open(damaged) as shard:
        song = next(one for one in shard if one.name == "03019.song.npy")
    damaged.write_bytes(damaged.read_bytes()[: song.offset_data + 50])


def train(folder):
    urls = f"{folder}/birds-{{00..{SHARDS - 1:02d}}}.tar"
    birds = wds.WebDataset(urls, shardshuffle=False, handler=wds.warn_and_continue)
    songs = birds.shuffle(60).decode().select(lambda one: "song.npy" in one and "species.cls" in one)
    songs = songs.to_tuple("song.npy", "species.cls").batched(8)
    loader = wds.WebLoader(songs, batch_size=None, num_workers=1)
    weights = torch.zeros(24, 4, requires_grad=True)
    for epoch in range(2):
        heard = 0
        for songs, species in loader:
            loss = torch.nn.functional.cross_entropy(torch.as_tensor(songs) @ weights, torch.as_tensor(species))
            (slope,) = torch.autograd.grad(loss, weights)
            weights.data -= 0.05 * slope
            heard += len(species)
        print(f"epoch {epoch}: {heard} songs, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        train(folder)
