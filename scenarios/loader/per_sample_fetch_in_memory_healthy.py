# expect: healthy
"""The same table with a sampler that draws whole batches: one index operation for each, nothing to put together."""

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

ROWS, BATCH = 60_000, 512


def epoch(loader, model, optimizer):
    for features, target in loader:
        optimizer.zero_grad()
        (model(features).squeeze(1) - target).square().mean().backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    table = TensorDataset(torch.rand(ROWS, 32), torch.rand(ROWS))
    model = torch.nn.Sequential(torch.nn.Linear(32, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.Adam(model.parameters())
    batches = BatchSampler(RandomSampler(table), batch_size=BATCH, drop_last=False)
    loader = DataLoader(table, sampler=batches, batch_size=None)
    for number in range(8):
        epoch(loader, model, optimizer)
        print("epoch", number, flush=True)


if __name__ == "__main__":
    main()
