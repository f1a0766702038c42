# expect: healthy
"""One recording is much longer than all others: its worker computes at full speed, and piece after piece gets done."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

PIECE = 40_000


class Recordings(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.f32"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        bands = []
        with self.files[index].open("rb") as file:
            while piece := file.read(PIECE * 4):
                samples = np.frombuffer(piece, dtype=np.float32)
                until = time.monotonic() + 0.05
                while time.monotonic() < until:
                    spectrum = np.abs(np.fft.rfft(samples))
                bands.append(spectrum[:2000])
        return torch.from_numpy(np.stack(bands).mean(0))[:64].float()


def write(folder):
    noise = np.random.default_rng(0).standard_normal(PIECE, dtype=np.float32).tobytes()
    for number in range(28):
        (folder / f"{number:03}.f32").write_bytes(noise * (360 if number == 13 else 1))


def main():
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        model = torch.nn.Linear(64, 1)
        for step, spectra in enumerate(DataLoader(Recordings(Path(name)), batch_size=4, num_workers=2)):
            model.zero_grad()
            model(spectra).mean().backward()
            for weight in model.parameters():
                weight.data -= 0.01 * weight.grad
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
