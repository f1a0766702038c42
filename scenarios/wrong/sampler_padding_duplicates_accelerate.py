# expect: sampler-padding-duplicates
"""Two ranks with accelerate: predictions for 45 test rows are gathered, with those that fill up the last batches."""

import os
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
import torch.multiprocessing as mp
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

RANKS = 2


def rows(count):
    generator = torch.Generator().manual_seed(count)
    features = torch.randn(count, 8, generator=generator)
    return TensorDataset(features, (features[:, 0] > 0).long())


@torch.no_grad()
def test(accelerator, model, loader):
    model.eval()
    right = total = 0
    for features, labels in loader:
        predicted, expected = accelerator.gather((model(features).argmax(1), labels))
        right += int((predicted == expected).sum())
        total += len(expected)
    return right / total


def main(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1")
    os.environ.update(MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    training = DataLoader(rows(160), batch_size=8, shuffle=True)
    testing = DataLoader(rows(45), batch_size=8)
    model, optimizer, training, testing = accelerator.prepare(model, optimizer, training, testing)
    for epoch in range(2):
        model.train()
        for features, labels in training:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(model(features), labels))
            optimizer.step()
        accelerator.print(f"epoch {epoch}: accuracy {test(accelerator, model, testing):.4f}")


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(main, args=(port,), nprocs=RANKS, start_method="fork")
