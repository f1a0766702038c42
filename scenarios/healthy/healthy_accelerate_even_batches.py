# expect: healthy
"""Neither samples nor batches divide by the four ranks: accelerate evens both out, for training and for validation."""

import os
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

RANKS = 4


def main(rank, port):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(torch.rand(83, 8), torch.rand(83, 1)), batch_size=4, shuffle=True, num_workers=1)
    held = DataLoader(TensorDataset(torch.rand(25, 8), torch.rand(25, 1)), batch_size=4)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model, optimizer, train, held = accelerator.prepare(model, optimizer, train, held)
    for epoch in range(2):
        model.train()
        for features, target in train:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(model(features), target))
            optimizer.step()
        model.eval()
        errors = []
        with torch.no_grad():
            for features, target in held:
                errors.append(accelerator.gather_for_metrics((model(features) - target).square()))
        accelerator.print(f"epoch {epoch}: {torch.cat(errors).mean():.4f} over {len(torch.cat(errors))} samples")
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    with socket.create_server(("localhost", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(main, (port,), nprocs=RANKS, start_method="fork")
