# expect: spawn-pickle-large-dataset
"""A table of half a million annotations held as Python objects, and workers that are spawned: each is sent all of it."""

import torch
from torch.utils.data import DataLoader, Dataset


class Annotations(Dataset):
    def __init__(self, rows):
        self.rows = [
            {"id": row, "text": f"annotation number {row}", "box": (row, row + 1, 3, 4)} for row in range(rows)
        ]

    def __len__(self):
        return 160

    def __getitem__(self, number):
        return torch.tensor(self.rows[number]["box"], dtype=torch.float32)


def main():
    loader = DataLoader(Annotations(500_000), batch_size=8, num_workers=2, multiprocessing_context="spawn")
    model = torch.nn.Linear(4, 1)
    for boxes in loader:
        model.zero_grad()
        model(boxes).mean().backward()
        for weight in model.parameters():
            weight.data -= 1e-12 * weight.grad
    print("done", flush=True)


if __name__ == "__main__":
    main()
