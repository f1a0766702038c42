# expect: healthy
"""Cells of a tissue lie in eight files, one of them in an older format that only loads when asked twice; and what was
prepared from a file is kept beside it, which is looked for first and not found in the first epoch."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES, CELLS, GENES = 8, 96, 12


class Cells(IterableDataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("tissue-?.npy"))

    def read(self, file):
        try:
            return np.load(file)
        except ValueError:  # an array of objects
            return np.stack(np.load(file, allow_pickle=True)).astype(np.float32)

    def prepared(self, file):
        kept = file.with_suffix(".scaled.npy")
        try:
            return np.load(kept)
        except FileNotFoundError:
            cells = self.read(file)
            scaled = (cells - cells.mean(0)) / cells.std(0)
            np.save(kept, scaled)
            return scaled

    def __iter__(self):
        info = get_worker_info()
        for file in self.files[info.id :: info.num_workers]:
            yield from torch.from_numpy(self.prepared(file))


def sequence(folder):
    rng = np.random.default_rng(11)
    for number in range(FILES):
        cells = rng.normal(number, 1, (CELLS, GENES)).astype(np.float32)
        old = np.empty(CELLS, dtype=object)
        old[:] = list(cells)
        np.save(Path(folder, f"tissue-{number}.npy"), old if number == 5 else cells)


def train(folder):
    encoder = torch.zeros(GENES, 3).normal_().requires_grad_()
    for epoch in range(2):
        cells = 0
        for batch in DataLoader(Cells(folder), batch_size=16, num_workers=2):
            loss = (batch @ encoder @ encoder.T - batch).pow(2).mean()
            (slope,) = torch.autograd.grad(loss, encoder)
            encoder.data -= 1e-4 * slope
            cells += len(batch)
        print(f"epoch {epoch}: {cells} cells, loss {loss.item():.2f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        sequence(folder)
        train(folder)
