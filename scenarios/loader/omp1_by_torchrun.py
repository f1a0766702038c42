# expect: omp1-by-torchrun
# launch: -m torch.distributed.run --nproc-per-node 2
"""Rank 0 prepares the spectrograms for all ranks and sends them on. It was fast in the notebook, before torchrun."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Spectrograms(Dataset):
    """A second of sound each, made visible and smoothed."""

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        sound = torch.linspace(0, 60 + number % 40, 96_000).sin()
        window = torch.hann_window(1024)
        seen = torch.stft(sound, 1024, hop_length=64, window=window, return_complex=True).abs()
        smooth = torch.nn.functional.avg_pool2d(seen[None], 5, stride=1)
        return smooth[0, :32, :32].contiguous()


def main():
    dist.init_process_group("gloo")
    weights, end = torch.zeros(32, 32), time.monotonic() + 6
    batches = iter(DataLoader(Spectrograms(), batch_size=2)) if dist.get_rank() == 0 else None
    while True:
        batch = torch.zeros(2, 32, 32) if batches is None else next(batches)
        dist.broadcast(batch, 0)
        weights -= 1e-3 * (weights - batch.mean(0))
        over = torch.tensor([time.monotonic() > end], dtype=torch.int)
        dist.broadcast(over, 0)
        if over:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
