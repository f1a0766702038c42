# expect: healthy
# trial: doctor make_loader --only samples,benchmark --limit 45
"""The same spectrograms, normalised as whole arrays: a millisecond each."""

import torch
from torch.utils.data import DataLoader, Dataset


def normalised(spectrogram: torch.Tensor) -> torch.Tensor:
    scaled = ((spectrogram - 0.5) / 0.25).clamp(-3.0, 3.0)
    return torch.where(scaled > 1.0, scaled * scaled, scaled)


class Spectrograms(Dataset):
    """As they are recorded, made comparable."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return normalised(torch.rand((300, 400), generator=generator)), index % 10


def make_loader() -> DataLoader:
    return DataLoader(Spectrograms(), batch_size=4, num_workers=2)
