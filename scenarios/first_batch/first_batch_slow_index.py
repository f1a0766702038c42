# expect: first-batch-slow
"""Each worker reads all articles into an index of its own before it gives the first of them. Then it runs well."""

import pathlib
import tempfile
import time

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FILES, LENGTH = 25, 16


class Articles(IterableDataset):
    """Files of a slow store, by the numbers of their articles."""

    def __init__(self, folder):
        self.paths = sorted(pathlib.Path(folder).iterdir())

    def look_up(self):
        index = {}
        for path in self.paths:
            time.sleep(0.42)
            for line in path.read_text().splitlines():
                number, *words = line.split()
                index[int(number)] = torch.tensor([float(word) for word in words])
        return index

    def __iter__(self):
        worker, index = get_worker_info(), self.look_up()
        for number in sorted(index)[worker.id :: worker.num_workers]:
            yield index[number]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for file in range(FILES):
            rows = [[file * 8 + row, *range(LENGTH)] for row in range(8)]
            pathlib.Path(folder, f"{file:03}.txt").write_text("\n".join(" ".join(map(str, row)) for row in rows))
        weights = torch.zeros(LENGTH, requires_grad=True)
        for step, batch in enumerate(DataLoader(Articles(folder), batch_size=8, num_workers=2)):
            loss = (batch @ weights - 1).square().mean()
            (gradient,) = torch.autograd.grad(loss, weights)
            weights.data -= 1e-4 * gradient
            print(f"step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
