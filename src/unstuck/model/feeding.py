"""Documents read, tokens made, batches so far: what a process got from data libraries, with its workers, in words."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .phrases import duration, many, percent
from .recorded import Process
from .sources import DataFile, Source
from .told import Progress

ROWS, TOKENS = "rows", "tokens"
UNITS = {"tokens": 1, "documents": 0}


class Feeding(NamedTuple):
    """Of a main process and those of its workers that are recorded, or of a worker alone."""

    sources: list[Source]
    files: list[DataFile]
    progress: list[Progress]
    steps: int
    batches: int
    asked: float | None = None  # when a loader was first asked for a batch

    @property
    def documents(self) -> int:
        """Handed to a tokenizer; where there is none that is known, rows that were read."""
        return sum(one.items for one in self.sources if one.kind == (TOKENS if self.tokenizers else ROWS))

    @property
    def tokenizers(self) -> list[Source]:
        return [one for one in self.sources if one.kind == TOKENS]

    @property
    def readers(self) -> list[Source]:
        return [one for one in self.sources if one.kind == ROWS]

    @property
    def rows(self) -> int:
        return sum(one.items for one in self.readers)

    @property
    def tokens(self) -> int:
        return sum(one.made for one in self.tokenizers)

    @property
    def began(self) -> float | None:
        told = [one.first for one in self.progress if one.need > 0 and one.first is not None]
        return min((*told, *(one.at for one in (*self.readers, *self.tokenizers))), default=None)

    @property
    def newest(self) -> float:
        told = [one.since for one in self.progress if one.need > 0]
        return max((*told, *(one.last for one in self.sources)), default=0.0)

    def filled(self, first_step: float) -> float:
        """When the last of it was read, made or told before that step: what is done with the batch is no part of it."""
        read = [one.before for one in self.sources if one.before is not None]
        told = [one.since if one.rose is None else one.first + one.rose for one in self.progress if one.first]
        return max((one for one in (*read, *told) if one <= first_step), default=first_step)

    @property
    def buffer(self) -> Progress | None:
        """The one that was filled last, of those that say how much they need."""
        return max((one for one in self.progress if one.need > 0), key=lambda one: one.since, default=None)

    @property
    def per_document(self) -> float | None:
        """Tokens."""
        documents = sum(one.items for one in self.tokenizers)
        return self.tokens / documents if documents else None

    @property
    def rate(self) -> float | None:
        """Of what the buffer holds, a second."""
        buffer, began = self.buffer, self.began
        if buffer is None or began is None:
            return None
        if not self.sources:
            passed, made = buffer.since - (self.asked if self.asked is not None else began), buffer.have
        else:
            made = self.documents if buffer.unit == "documents" else self.tokens or buffer.have
            passed = max(self.newest, buffer.since) - began
        return made / passed if passed > 0 and made > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds until the buffer is full, as it went so far."""
        buffer, rate = self.buffer, self.rate
        return None if buffer is None or not rate else max(buffer.need - buffer.have, 0) / rate


def feeding(evidence: Evidence, process: Process) -> Feeding:
    crew = [process]
    if process.role == "main":
        crew += [worker for loader in process.loaders for worker in evidence.workers_of(process, loader)]
    return Feeding(
        sources=[source for one in crew for source in one.sources],
        files=[file for one in crew for file in one.data_files],
        progress=[told for one in crew for told in one.progress],
        steps=process.optimizer_steps,
        batches=sum(one.batches for one in process.loaders) or sum(one.batches for one in process.fetching),
        asked=min((one.began for one in process.loaders if one.began is not None), default=None),
    )


def gave_batches(process: Process) -> bool:
    """A loader of its has, or it has fetched one itself."""
    return any(one.batches for one in process.loaders) or any(one.batches for one in process.fetching)


def so_far(evidence: Evidence, process: Process) -> str:
    """`1,280 documents read, 50,000 tokens made, no batch so far`."""
    fed = feeding(evidence, process)
    parts = [f"{many(fed.rows, 'row')} read" if fed.readers else ""]
    parts += [f"{many(sum(one.items for one in fed.tokenizers), 'document')} tokenised"] if fed.tokenizers else []
    parts += [f"{many(fed.tokens, 'token')} made"] if fed.tokenizers else []
    if not fed.sources:
        parts = ["no file opened, no document read and no token made that unstuck could see"]
    batches = max(fed.batches, fed.steps)
    parts.append(f"{many(batches, 'batch')} so far" if batches else "no batch so far")
    return ", ".join(part for part in parts if part)


def filling(fed: Feeding, *, came: bool = False) -> str:
    """`buffer 5,000/65,537 tokens (8 %), 4,100 tokens a second, full in about 15 s; 39 tokens a document, …`."""
    buffer = fed.buffer
    parts = []
    if buffer is not None:
        unit = f" {buffer.unit}" if buffer.unit else ""
        rate = f"{fed.rate:,.0f}{unit or ' items'} a second" if fed.rate else ""
        if came:
            rate = rate if fed.sources else ""  # of a buffer that is told, only the newest filling is known
            parts.append(f"a batch comes once {buffer.name} holds {buffer.need:,}{unit}{f', {rate}' if rate else ''}")
        else:
            parts.append(f"{buffer.name} {buffer.have:,}/{buffer.need:,}{unit} ({percent(buffer.have / buffer.need)})")
            if rate and fed.left is not None:
                parts.append(f"{rate}, full in about {duration(fed.left)}")
    if fed.per_document is not None and fed.tokens:
        need = buffer.need if buffer is not None and buffer.unit == "tokens" else 0
        needs = f", so that a batch needs about {many(round(need / fed.per_document), 'document')}" if need else ""
        parts.append(f"{fed.per_document:,.0f} tokens a document{needs}")
    return "; ".join(parts)


def on_the_way(fed: Feeding) -> list[str]:
    """`1,280 documents tokenised`, `50,000 tokens made`, `kept 5,000 of 65,537 tokens`, `about 40 s to go`."""
    told = [f"{many(fed.rows, 'row')} read"] if fed.rows else []
    if fed.tokens:
        told += [f"{many(fed.documents, 'document')} tokenised", f"{many(fed.tokens, 'token')} made"]
    told += [f"{one.name} {one.have:,} of {one.need:,} {one.unit}".rstrip() for one in fed.progress if one.need > 0]
    return told + ([f"about {duration(fed.left)} to go"] if fed.left else [])


def before_first(evidence: Evidence, process: Process) -> str:
    """How far it is on its way to the first batch, if it uses a data library; nothing once there was one."""
    fed = feeding(evidence, process)
    if not fed.sources or fed.steps or fed.batches:
        return ""
    return "; ".join(part for part in (so_far(evidence, process), filling(fed)) if part)
