# expect: unpicklable-dataset
"""A dataset with a lambda for its transform has always worked with forked workers; now they are spawned."""

import torch
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, gain):
        self.gain = gain
        self.transform = lambda wave: wave * self.gain

    def __len__(self):
        return 200

    def __getitem__(self, index):
        return self.transform(torch.sin(torch.linspace(0, index, 30)))


def main():
    torch.multiprocessing.set_start_method("spawn")
    train = DataLoader(Waves(gain=0.5), batch_size=20, num_workers=2)
    model = torch.nn.Linear(30, 1)
    for waves in train:
        model.zero_grad()
        model(waves).pow(2).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.1 * weight.grad


if __name__ == "__main__":
    main()
