# expect: healthy
"""One look at a batch before training, a peek at validation now and then, and a loader that has only one batch."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.rand(2000, 32))
    train = DataLoader(data, batch_size=16, shuffle=True, num_workers=2)
    peek = DataLoader(data, batch_size=16)
    whole = DataLoader(TensorDataset(torch.rand(64, 32)), batch_size=64)
    print("a batch looks like", next(iter(train))[0].shape)
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(train)
    for step in range(300):
        try:
            (x,) = next(batches)
        except StopIteration:
            batches = iter(train)
            (x,) = next(batches)
        optimizer.zero_grad()
        loss = model(x).square().mean() + model(next(iter(whole))[0]).square().mean()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            with torch.no_grad():
                print(step, model(next(iter(peek))[0]).square().mean().item())


if __name__ == "__main__":
    main()
