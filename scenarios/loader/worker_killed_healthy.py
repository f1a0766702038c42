# expect: healthy
"""Workers come and go all the time: a fresh set every epoch, epochs left in the middle, two loaders at once."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(600, 12), torch.randn(600, 1))
    net = torch.nn.Linear(12, 1)
    opt = torch.optim.AdamW(net.parameters())
    train = DataLoader(data, batch_size=25, shuffle=True, num_workers=2)
    held_out = DataLoader(data, batch_size=50, num_workers=1)
    for epoch in range(4):
        for step, (x, y) in enumerate(train):
            opt.zero_grad()
            torch.nn.functional.mse_loss(net(x), y).backward()
            opt.step()
            if epoch == 2 and step == 5:
                break
        with torch.no_grad():
            print(sum(float((net(x) - y).pow(2).mean()) for x, y in held_out))


if __name__ == "__main__":
    main()
