# expect: heavy-transform
# trial: doctor make_loader --only samples,benchmark --limit 45
"""Spectrograms are normalised element by element, in Python: 50 ms of computing for every sample."""

import torch
from torch.utils.data import DataLoader, Dataset


def normalised(spectrogram: torch.Tensor) -> torch.Tensor:
    rows = spectrogram.tolist()
    for row in rows:
        for column, value in enumerate(row):
            row[column] = min(max((value - 0.5) / 0.25, -3.0), 3.0)
            row[column] = row[column] * row[column] if row[column] > 1.0 else row[column]
    return torch.tensor(rows)


class Spectrograms(Dataset):
    """As they are recorded, made comparable."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return normalised(torch.rand((300, 400), generator=generator)), index % 10


def make_loader() -> DataLoader:
    return DataLoader(Spectrograms(), batch_size=4, num_workers=2)
