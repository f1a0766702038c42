# expect: healthy
"""As many captions, as one array of bytes with offsets: reading it touches no reference count, and nothing is copied."""

import random
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Captions(Dataset):
    def __init__(self, count):
        texts = [f"a photograph, the number of which is {number}, taken outdoors".encode() for number in range(count)]
        self.text = np.frombuffer(b"".join(texts), dtype=np.uint8)
        self.starts = np.cumsum([0, *map(len, texts)])

    def __len__(self):
        return 560

    def __getitem__(self, number):
        drawn = random.Random(number).choices(range(len(self.starts) - 1), k=200)
        texts = [bytes(self.text[self.starts[one] : self.starts[one + 1]]) for one in drawn]
        return torch.tensor([float(sum(map(len, texts)))])


def main():
    loader = DataLoader(Captions(1_400_000), batch_size=4, num_workers=2)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-15)
    for step, lengths in enumerate(loader):
        optimizer.zero_grad()
        model(lengths).mean().backward()
        optimizer.step()
        time.sleep(0.03)  # what an accelerator would take
        if step % 40 == 0:
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
