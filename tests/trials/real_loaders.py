"""Loaders as people have them, with the real libraries. Each makes its data in `root` and gives a loader.

Targets for `unstuck budget`, `doctor` and `tune`: `tests/trials/real_loaders.py:images --kwargs root=/tmp/data`.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


def pictures(count: int, side: int = 512) -> list[bytes]:
    from PIL import Image

    found = []
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(noise).resize((side, side)).save(out, "JPEG", quality=92)
        found.append(out.getvalue())
    return found


class Pictures(Dataset):
    """JPEG files in a folder, listed as (path, label): a hundred thousand entries for 64 files."""

    def __init__(self, root: Path, length: int) -> None:
        folder = root / "pictures"
        if not folder.exists():
            folder.mkdir(parents=True)
            for number, data in enumerate(pictures(64)):
                (folder / f"{number:03d}.jpg").write_bytes(data)
        self.entries = [(f"{folder}/{number % 64:03d}.jpg", number) for number in range(length)]

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        from PIL import Image

        path, label = self.entries[index]
        picture = Image.open(path).convert("RGB").resize((224, 224))
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255, label % 10


def images(root: str, workers: int = 2, batch: int = 64, prefetch: int = 2, length: int = 2_000) -> DataLoader:
    return DataLoader(
        Pictures(Path(root), length), batch_size=batch, shuffle=True, num_workers=workers, prefetch_factor=prefetch
    )


def web_shards(root: str, workers: int = 2, batch: int = 16, buffer: int = 400) -> DataLoader:
    """Raw arrays in tar shards, shuffled before they are decoded, put into batches by the pipeline."""
    import webdataset as wds

    folder = Path(root) / "shards"
    if not folder.exists():
        folder.mkdir(parents=True)
        rows = np.random.default_rng(0)
        for shard in range(8):
            with wds.TarWriter(str(folder / f"part-{shard:03d}.tar")) as out:
                for number in range(200):
                    array = rows.integers(0, 255, (3, 192, 192), dtype=np.uint8)
                    out.write({"__key__": f"{shard:03d}{number:05d}", "npy": array, "cls": number % 10})
    urls = sorted(str(path) for path in folder.glob("*.tar"))
    data = (
        wds.WebDataset(urls, shardshuffle=False)
        .shuffle(buffer, initial=buffer)
        .decode()
        .to_tuple("npy", "cls")
        .map_tuple(lambda array: torch.from_numpy(array).float() / 255, int)
        .batched(batch)
    )
    return DataLoader(data, batch_size=None, num_workers=workers)


class Documents(IterableDataset):
    """Text in parquet files, tokenised as it is read; every worker has its part of the row groups."""

    def __init__(self, root: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = root / "text.parquet"
        if not self.path.exists():
            root.mkdir(parents=True, exist_ok=True)
            words = [f"word{number}" for number in range(2_000)]
            rows = np.random.default_rng(0)
            text = [" ".join(rows.choice(words, 300)) for _ in range(8_000)]
            pq.write_table(pa.table({"text": text}), self.path, row_group_size=500)

    def __iter__(self):
        import pyarrow.parquet as pq
        from tokenizers import Tokenizer, models, pre_tokenizers

        tokenizer = Tokenizer(models.WordLevel({f"word{number}": number for number in range(2_000)}, "word0"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        info = get_worker_info()
        number, count = (info.id, info.num_workers) if info is not None else (0, 1)
        file = pq.ParquetFile(self.path)
        for group in range(number, file.num_row_groups, count):
            for one in tokenizer.encode_batch(file.read_row_group(group)["text"].to_pylist()):
                yield {"input_ids": one.ids, "length": len(one.ids)}


def padded(samples: list[dict]) -> dict[str, torch.Tensor]:
    rows = [torch.tensor(one["input_ids"]) for one in samples]
    return {
        "input_ids": torch.nn.utils.rnn.pad_sequence(rows, batch_first=True),
        "length": torch.tensor([one["length"] for one in samples]),
    }


def tokens(root: str, workers: int = 2, batch: int = 128) -> DataLoader:
    return DataLoader(Documents(Path(root)), batch_size=batch, num_workers=workers, collate_fn=padded)


class Volumes(Dataset):
    """3D images of one byte a voxel, made 32-bit numbers, scaled, and cut."""

    def __init__(self, root: Path, side: int) -> None:
        self.side = side
        self.folder = root / f"volumes{side}"
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            for number in range(4):
                volume = np.random.default_rng(number).integers(0, 255, (side, side, side), dtype=np.uint8)
                np.save(self.folder / f"{number}.npy", volume)

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        volume = np.load(self.folder / f"{index % 4}.npy").astype(np.float32)
        scaled = (volume - volume.mean()) / (volume.std() + 1e-6)
        return {"volume": torch.from_numpy(scaled)[None], "mask": torch.from_numpy(scaled > 1)}


def volumes(root: str, workers: int = 2, batch: int = 2, prefetch: int = 2, side: int = 160) -> DataLoader:
    return DataLoader(Volumes(Path(root), side), batch_size=batch, num_workers=workers, prefetch_factor=prefetch)


def hugging_face(root: str, workers: int = 2, batch: int = 32, buffer: int = 1_000) -> DataLoader:
    """A table on the disk as a stream, shuffled by a buffer, given as tensors."""
    from datasets import Dataset as Table
    from datasets import load_from_disk

    folder = Path(root) / "table"
    if not folder.exists():
        rows = np.random.default_rng(0)
        Table.from_dict({"pixels": list(rows.random((3_000, 4_096), dtype=np.float32))}).save_to_disk(
            str(folder), num_shards=4
        )
    stream = load_from_disk(str(folder)).to_iterable_dataset(num_shards=4)
    return DataLoader(
        stream.shuffle(seed=0, buffer_size=buffer).with_format("torch"), batch_size=batch, num_workers=workers
    )


class Captions(Dataset):
    """A long list of Python strings: what forked workers copy by reading."""

    def __init__(self, length: int) -> None:
        self.captions = [f"a photograph of something, number {number:09d}" for number in range(length)]

    def __len__(self) -> int:
        return 60_000

    def __getitem__(self, index: int) -> torch.Tensor:
        text = "".join(self.captions[index :: len(self)])
        return torch.tensor([ord(letter) for letter in text[:64]])


def captions(root: str, workers: int = 2, batch: int = 256, length: int = 600_000) -> DataLoader:
    return DataLoader(Captions(length), batch_size=batch, shuffle=True, num_workers=workers)


def data_module(root: str, workers: int = 2, batch: int = 32):
    import lightning.pytorch as pl

    class Module(pl.LightningDataModule):
        def setup(self, stage: str) -> None:
            self.pictures = Pictures(Path(root), 2_000)

        def train_dataloader(self) -> DataLoader:
            return DataLoader(self.pictures, batch_size=batch, shuffle=True, num_workers=workers)

    return Module()
