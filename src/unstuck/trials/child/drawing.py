"""Goes on drawing as the user's own loader does, however short its dataset is: a measurement needs no end of a pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset


class Endless:
    """What a sampler draws, pass after pass. Who asks again goes on where the last one stopped, with unread data."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._drawn: Iterator[Any] = self._all()
        self.sizes: deque[int] = deque()  # samples of the batches that were asked for, in order
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        self.sizes.clear()
        for one in self._drawn:
            self.sizes.append(len(one) if isinstance(one, (list, tuple)) else 1)
            self.count += 1
            yield one

    def _all(self) -> Iterator[Any]:
        some = True
        while some:
            some = False
            for one in self._sampler:
                some = True
                yield one

    def skip(self, count: int) -> None:
        for _ in range(count):
            next(self._drawn, None)


class Repeating(IterableDataset[Any]):
    """A stream that begins again when it ends. What a worker_init_fn asks of it or sets is the user's own dataset's."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    def __iter__(self) -> Iterator[Any]:
        some = True
        while some:
            some = False
            for one in self._inner:
                some = True
                yield one

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_inner":  # while it is unpickled there is none yet
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __reduce__(self) -> Any:
        return type(self), (self._inner,)


def endless(loader: Any) -> tuple[dict[str, Any], Endless | None]:
    """What has to be changed in a loader so that it does not end, and who draws."""
    if isinstance(loader.dataset, IterableDataset):
        return {"dataset": Repeating(loader.dataset)}, None
    if loader.batch_sampler is not None:
        drawn = Endless(loader.batch_sampler)
        return {"batch_sampler": drawn}, drawn
    drawn = Endless(loader.sampler)
    return {"sampler": drawn}, drawn


def samples_of(batch: Any, loader: Any) -> int:
    """Of a stream: its batch size, or, where the dataset makes the batches, the one length that all parts have."""
    if loader.batch_size is not None:
        return int(loader.batch_size)
    parts = list(batch.values()) if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else [batch]
    lengths = {_length(one) for one in parts if not isinstance(one, (str, bytes))}
    return max(lengths.pop(), 1) if len(lengths) == 1 else 1


def _length(part: Any) -> int:
    shape = getattr(part, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(part) if isinstance(part, (list, tuple)) else 0
