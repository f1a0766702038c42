# expect: compile-recompiles
"""A compiled model counts its own steps for a warm-up, so that it is another model in every step and compiled anew."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Warming(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 1)
        self.calls = 0

    def forward(self, rows):
        self.calls += 1
        return self.layer(rows) * min(1.0, self.calls / 200)


def main():
    torch.set_num_threads(1)
    model = Warming()
    compiled = torch.compile(model, backend="eager")
    for rows, wanted in DataLoader(TensorDataset(torch.rand(640, 32), torch.rand(640, 1)), batch_size=16):
        loss = (compiled(rows) - wanted).square().mean()
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.sub_(0.05 * weight.grad)
                weight.grad = None
    print(f"loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
