# expect: loader-shutdown-slow-join
# outside: nothing
"""The epoch is left early while every worker is in the middle of a long sample, and each of them is waited for."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index >= 64:
            time.sleep(60)  # a clip from the cold archive
        return torch.full((48,), float(index % 13))


def main():
    model = torch.nn.Linear(48, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Clips(), batch_size=4, num_workers=4)
    for step, clips in enumerate(loader):
        optimizer.zero_grad()
        model(clips).mean().backward()
        optimizer.step()
        print("step", step, flush=True)
        if step == 11:
            break
    print("epoch left early")
    torch.save(model.state_dict(), "/dev/null")


if __name__ == "__main__":
    main()
