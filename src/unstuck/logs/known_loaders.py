"""The DataLoaders of one main process, as its notes tell of them: what each is, how long, and who works for it."""

from __future__ import annotations

from ..inside import format as f
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from . import describing
from .describing import KnownLoader
from .line import Line

KEPT = 4096  # workers: they may come anew with every epoch


class KnownLoaders:
    """Filled as the notes are read."""

    def __init__(self, tail: Tail) -> None:
        self.rank = ""  # how the process is called in its lines
        self.loaders: dict[int, KnownLoader] = {}
        self.workers: dict[int, tuple[int, int]] = {}  # loader and number of each, by pid
        self.iterable: dict[int, bool] = {}  # by loader
        self._tail = tail
        self._descriptions: dict[int, str] = {}
        self._datasets: dict[int, int] = {}  # lengths
        self._assigned: list[tuple[float, int, int]] = []
        self._told: set[tuple[int, int]] = set()  # loader and number of workers whose share was told

    def loader(self, number: int) -> KnownLoader:
        return self.loaders.get(number) or self.loaders.setdefault(number, KnownLoader(number))

    def met(self, one: Record) -> list[Line]:
        """A loader in use is described again with every pass; one line may make so many that a number is used twice."""
        text = self._tail.string(one.a)
        if one.key in self._descriptions and text in ("", self._descriptions[one.key]):
            return []
        self._descriptions[one.key] = text
        self.loader(one.key)
        self.iterable[one.key] = '"iterable": true' in text
        return describing.described(self.rank, self._tail.seconds(one.start), one.key, text)

    def length(self, one: Record) -> list[Line]:
        loader, dataset = self.loader(one.key), one.a - 1 if one.a > 0 else None
        if (loader.length, self._datasets.get(one.key)) == (one.b - 1, dataset):
            return []
        loader.length = one.b - 1
        if dataset is not None:
            self._datasets[one.key] = dataset
        return describing.lengths(self.rank, self._tail.seconds(one.start), loader, dataset)

    def worker(self, one: Record) -> list[Line]:
        self.workers[one.a] = (one.key, one.b)
        if len(self.workers) > KEPT:
            del self.workers[next(iter(self.workers))]
        if (one.key, one.b) not in self._told and len(self._told) < KEPT:
            self._told.add((one.key, one.b))
            self._assigned.append((self._tail.seconds(one.start), one.key, one.b))
        return []

    def shares(self) -> list[Line]:
        """Who reads how much. Of a loader's first workers only: those that come anew every epoch are dealt the same."""
        assigned, self._assigned = self._assigned, []
        world = self._tail.header[f.H_WORLD]
        rank = self.rank.strip("[]") + (f"/{world}" if world else "")
        lines = []
        for at, number, worker in assigned:
            text, dataset = self._descriptions.get(number, ""), self._datasets.get(number)
            workers = 1 + max((one[1] for one in self.workers.values() if one[0] == number), default=worker)
            whose = f"[{rank} Worker {worker}/{workers}]"
            lines += describing.assigned(whose, at, text, self.loader(number), dataset, worker, workers)
        return lines
