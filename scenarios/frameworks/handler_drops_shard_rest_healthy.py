# expect: healthy
"""Recordings of birds in five whole shards, the last of them short. One song in two hundred is no song: the handler of
`decode` leaves out that one, and nothing else."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import webdataset as wds

SHARDS, CALLS, LAST = 5, 60, 17
warnings.filterwarnings("ignore", module="webdataset")


def record(folder):
    rng = np.random.default_rng(3)
    for number in range(SHARDS):
        with wds.TarWriter(str(folder / f"birds-{number:02d}.tar")) as shard:
            for call in range(LAST if number == SHARDS - 1 else CALLS):
                song = rng.normal(call % 4, 1.0, 24).astype(np.float32)
                sample = {"__key__": f"{number:02d}{call:03d}", "song.npy": song, "species.cls": call % 4}
                shard.write(sample | ({"song.npy": b"silence"} if (number, call) == (2, 9) else {}))


def train(folder):
    urls = f"{folder}/birds-{{00..{SHARDS - 1:02d}}}.tar"
    birds = wds.WebDataset(urls, shardshuffle=False, handler=wds.warn_and_continue)
    songs = birds.shuffle(60).decode(handler=wds.warn_and_continue).to_tuple("song.npy", "species.cls").batched(8)
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
