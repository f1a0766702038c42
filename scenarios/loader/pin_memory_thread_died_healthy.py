# expect: healthy
"""Batches of the same kind through the same thread, but the class answers as well when it is put together again."""

import torch
from torch.utils.data import DataLoader, Dataset

# There is no accelerator here: its answers are put in place, so that torch starts the thread that pins batches.
torch.accelerator.is_available = lambda: True
torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cpu")
torch.accelerator.current_device_index = lambda: 0
torch.accelerator.set_device_index = lambda _: None
torch.utils.data._utils.pin_memory.pin_memory = lambda batch, device=None: batch


class Batch:
    def __init__(self, fields):
        self.fields = fields

    def __getattr__(self, name):
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(name) from None


class Molecules(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, i):
        return {"atoms": torch.randn(4, 8), "energy": torch.tensor(float(i))}


def together(molecules):
    return Batch({name: torch.stack([one[name] for one in molecules]) for name in molecules[0]})


if __name__ == "__main__":
    net = torch.nn.Linear(8, 1)
    adam = torch.optim.Adam(net.parameters())
    for batch in DataLoader(Molecules(), batch_size=30, collate_fn=together, num_workers=1, pin_memory=True):
        adam.zero_grad()
        (net(batch.atoms).sum((1, 2)) - batch.energy).square().mean().backward()
        adam.step()
    print("all energies learned")
