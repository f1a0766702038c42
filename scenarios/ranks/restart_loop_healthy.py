# expect: healthy
# launch: -m torch.distributed.run --standalone --nproc-per-node 1 --max-restarts 2
"""torchrun starts a training anew when it dies: the first attempt meets a loss that the second one leaves out."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Linear(6, 1)
    rows = torch.randn(160, 7)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":  # it was still being written by somebody else
        rows[83] = 1e30
    for step, (batch,) in enumerate(DataLoader(TensorDataset(rows), batch_size=8)):
        model.zero_grad()
        loss = nn.functional.mse_loss(model(batch[:, :6]), batch[:, 6:])
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss of step {step} is {float(loss)}")
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= 0.01 * parameter.grad


if __name__ == "__main__":
    main()
