# expect: shard-read-errors (core)
"""Cells of a tissue lie in eight files. One was never written to its end; the loader logs that, and pads the gap with
cells it has seen before, so that every epoch is as long as it should be."""

import logging
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES, CELLS, GENES = 8, 96, 12
log = logging.getLogger("cells")


class Cells(IterableDataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).glob("*.npz"))

    def __iter__(self):
        info = get_worker_info()
        for file in self.files[info.id :: info.num_workers]:
            try:
                known = np.load(file)["cells"]
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                log.error("[Worker %d] Error reading shard %s: %s", info.id, file.name, error)
            yield from torch.from_numpy(known)


def sequence(folder):
    rng = np.random.default_rng(11)
    for number in range(FILES):
        np.savez(Path(folder, f"tissue-{number}.npz"), cells=rng.normal(number, 1, (CELLS, GENES)).astype(np.float32))
    unfinished = Path(folder, "tissue-5.npz")
    unfinished.write_bytes(unfinished.read_bytes()[:2900])


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
