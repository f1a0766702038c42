# expect: gc-pauses
"""Every sample lies in memory as a dict, and the loop collects garbage after every step, to be on the safe side."""

import gc

import torch
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, count):
        self.records = [{"id": number, "box": [number, 1, 2, 3]} for number in range(count)]

    def __len__(self):
        return 300

    def __getitem__(self, index):
        return torch.tensor(self.records[index]["box"], dtype=torch.float32)


def main():
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    for boxes in DataLoader(Records(100_000), batch_size=10, shuffle=True):
        loss = model(boxes / 1000).square().mean()
        loss.backward()
        for weight in model.parameters():
            weight.data -= 0.001 * weight.grad
            weight.grad = None
        gc.collect()
    print(f"loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
