# expect: healthy
"""The same resume. The dataset uses the position it was given once: only the interrupted epoch is short."""

import io

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader


class Events(IterableDataset):
    def __init__(self, rows):
        self.rows = rows
        self.start = self.at = 0

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        info = get_worker_info()
        share = self.rows[info.id :: info.num_workers]
        start, self.start = self.start, 0
        for at in range(start, len(share)):
            self.at = at
            yield share[at]

    def state_dict(self):
        return {"at": self.at + 1}

    def load_state_dict(self, state):
        self.start = state["at"]


def make_loader():
    rows = torch.arange(320.0).reshape(160, 2) / 320
    return StatefulDataLoader(Events(rows), batch_size=8, num_workers=2, persistent_workers=True)


def interrupted(path):
    """What the first job did until its time was up."""
    loader = make_loader()
    for step, _ in enumerate(loader):
        if step == 13:
            torch.save(loader.state_dict(), path)
            path.seek(0)
            return


def resumed(path, epochs):
    loader = make_loader()
    loader.load_state_dict(torch.load(path, weights_only=False))
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        steps = 0
        for rows in loader:
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            steps += 1
        print(f"epoch {epoch}: {steps} of {len(loader)} steps", flush=True)


if __name__ == "__main__":
    checkpoint = io.BytesIO()
    interrupted(checkpoint)
    resumed(checkpoint, epochs=4)
