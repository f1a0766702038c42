# expect: healthy
"""The running loss is a number, the newest fifty outputs are kept detached, and memory grows by a history of metrics."""

from collections import deque

import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, optimizer):
    running, newest, history = 0.0, deque(maxlen=50), []
    for step, (inputs, targets) in enumerate(loader):
        outputs = model(inputs)
        loss = torch.nn.functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        newest.append(loss)
        history.append(outputs.detach().repeat(8, 16))
        if step % 100 == 99:
            recent = torch.stack(list(newest)).mean().item()
            print(f"step {step}, mean loss {running / (step + 1):.4f}, recently {recent:.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
    data = TensorDataset(torch.rand(16_000, 256), torch.rand(16_000, 8))
    train(net, DataLoader(data, batch_size=32), torch.optim.Adam(net.parameters()))
