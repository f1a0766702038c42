# expect: graph-accumulation (core)
"""How far two views of a batch agree is summed up for the log, as a tensor: with it, every step's graph is kept."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, optimizer):
    agreement = 0
    for step, (inputs, targets) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        agreement += (model(inputs) * model(inputs.flip(1))).mean()
        if step % 100 == 99:
            print(f"step {step}, loss {loss.item():.4f}, agreement {agreement / (step + 1):.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
    data = TensorDataset(torch.rand(28_800, 256), torch.rand(28_800, 8))
    train(net, DataLoader(data, batch_size=96), torch.optim.Adam(net.parameters()))
