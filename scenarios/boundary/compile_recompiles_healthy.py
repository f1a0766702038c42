# expect: healthy
"""A compiled model is compiled once more for a shorter last batch and once for evaluation; its counter is a tensor."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Warming(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows):
        self.calls += 1
        return self.layer(rows) * torch.clamp(self.calls / 200, max=1.0)


def main():
    torch.set_num_threads(1)
    model = Warming()
    compiled = torch.compile(model, backend="eager")
    rows, wanted = torch.rand(632, 32), torch.rand(632, 1)
    for epoch in range(2):
        model.train()
        for some, result in DataLoader(TensorDataset(rows, wanted), batch_size=16):
            loss = (compiled(some) - result).square().mean()
            loss.backward()
            with torch.no_grad():
                for weight in model.parameters():
                    weight.sub_(0.05 * weight.grad)
                    weight.grad = None
        model.eval()
        with torch.no_grad():
            held_out = (compiled(rows[:100]) - wanted[:100]).square().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} validation {held_out.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
