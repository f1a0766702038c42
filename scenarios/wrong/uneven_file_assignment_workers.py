# expect: uneven-file-assignment
"""Three archives of recordings are divided among two workers: one reads two of them, the other only one and is done."""

import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

CLIPS = 90


class Recordings(IterableDataset):
    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        info = get_worker_info()
        for path in self.paths[info.id :: info.num_workers]:
            for number, clip in enumerate(path.read_bytes()):
                time.sleep(0.022)  # decodes on another device
                yield torch.tensor([clip / 255, number / CLIPS])


def main(folder):
    for number in range(3):
        Path(folder, f"part-{number}.bin").write_bytes(bytes((number * 80 + clip) % 256 for clip in range(CLIPS)))
    torch.set_num_threads(1)
    loader = DataLoader(Recordings(sorted(Path(folder).iterdir())), batch_size=6, num_workers=2)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for clips in loader:
        optimizer.zero_grad()
        loss = model(clips).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
