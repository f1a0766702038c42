# expect: healthy
"""The same records and the same collection after every step, but what was there before the loop is frozen."""

import gc
import time

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
    loader = DataLoader(Records(100_000), batch_size=10, shuffle=True)
    gc.collect()
    gc.freeze()
    for boxes in loader:
        loss = model(boxes / 1000).square().mean()
        loss.backward()
        for weight in model.parameters():
            weight.data -= 0.001 * weight.grad
            weight.grad = None
        gc.collect()
        time.sleep(0.02)
    print(f"loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
