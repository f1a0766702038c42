# expect: healthy
"""Much stands at the top level, and every spawned worker runs it again, the loader's making included: but not its use."""

import torch
from torch.utils.data import DataLoader, Dataset


class Cubes(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return torch.tensor([index, index**3], dtype=torch.float32) / 4e7


torch.manual_seed(7)
cubes = Cubes()
loader = DataLoader(cubes, batch_size=40, shuffle=True, num_workers=1, multiprocessing_context="spawn")
model = torch.nn.Linear(2, 1)
print("there are", len(loader), "batches", flush=True)

if __name__ == "__main__":
    for batch in loader:
        model.zero_grad()
        model(batch).pow(2).mean().backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad
