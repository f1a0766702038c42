"""The first batch is slow, not hung: a buffer, an index or a cache is filled before it.

## It means

A loader that packs tokens yields its first batch only when its buffer holds enough: B * T + 1 tokens (32 * 2,048 + 1 =
65,537), or a number of documents. Others read all files into an index or a cache before the first sample. Until then
one process computes at full load, the GPU is idle, and no step is logged. That is normal, but takes long with short
documents, little data per file, or one thread for all of it.

## Fix

If the buffer is nearly full, wait. To make it faster, tokenise documents in batches:

```python
ids = [tokenizer.encode(text) for text in texts]  # before: one core, one call per document
ids = tokenizer.encode_batch(texts)  # after, with tokenizers
ids = encoding.encode_ordinary_batch(texts, num_threads=8)  # after, with tiktoken
```

Or tokenise once, before the training, and read tokens from disk:

```python
numpy.concatenate(ids).astype(numpy.uint16).tofile("train.bin")  # once; uint16 holds a vocabulary up to 65,536
tokens = numpy.memmap("train.bin", dtype=numpy.uint16, mode="r")  # in the training
```

If it is reading that takes long, write larger row groups (`pq.write_table(table, path, row_group_size=10_000)`) and
larger files. For a test only, a smaller batch fills sooner, but changes the training.

## Check it yourself

Look twice, some seconds apart. If the stack is in `encode` or in a read, and the counters grow, it is working. If the
stack stays at one line of a loop and nothing grows, it is spinning.

```sh
py-spy dump --pid PID
grep -E 'rchar|read_bytes' /proc/PID/io   # twice: it grows while something is read
```

## Not this, if

- no file is read and no token is made at full CPU load: [nanochat-empty-split-spin](nanochat-empty-split-spin.md)
- the same files are read over and over: [loop-without-batch](loop-without-batch.md)
- every batch takes as long as the first: [loader-always-slow](loader-always-slow.md)
- a shuffle buffer is filled before every epoch: [shuffle-buffer-large](shuffle-buffer-large.md)
- the time goes into starting the workers: [worker-start-slow](worker-start-slow.md)
- the sampler reads the dataset first: [sampler-reads-data](sampler-reads-data.md)

## How sure

It is judged from when the first batch was requested and when it came, how long later batches took, what was read and
tokenised until then, and the buffer, where the loop that fills one is recognised (`while len(buffer) < needed`) or the
training reports it. Starting workers and the first training step are not counted. It is certain of the seconds. It
speaks when the first batch took ten seconds or more, at least half of the time since it was requested, and later
batches come at least four times as fast. While it has not come, it speaks only if something was read, loaded, made or
kept in the last ten seconds. It is silent about a single slow sample and about shuffle buffers. Time in which other
programs had the CPU cores is left out.

## Seen in

- https://github.com/webdataset/webdataset/issues/267: ten minutes until the first batch of 1,000 large images, then 35
  s until the second, then rapidly
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_first
from ...analysis.first_batch import Feeding, First, Warming, advice, filling, first_batch, seen, so_far, warming, words
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Source
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import Level, rule
from ._tokenizing import BEFOREHAND, in_batches, more_threads, one_by_one

SECONDS = 10.0  # a silence that people begin to wonder about
SHARE = 0.5  # of the time since it was requested: in a long training the first minute does not matter
FASTER = 4  # times: if later batches are not so much faster, it is not a warm-up
MOST = 0.5  # of the first batch in one kind of call: then that call is what to look at
SHORT = 100  # tokens: documents below that are short
MOST_OPTIONS = 4  # the fix and three alternatives


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.ECHO,
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        first = first_batch(case, main)
        if first is None or not _is_slow(fair_first(case, main, first)) or _is_shuffled(first):
            continue
        source, warm = _most(first.fed), warming(case, main, first)
        if _is_one_sample(first, warm):
            continue
        options = list(_options(case, main, first, warm))
        yield case.finding(
            main,
            cause=_cause(main, first, warm),
            seen=list(_seen(case, main, first, warm)),
            remedy=options[0],
            alternatives=options[1:MOST_OPTIONS],
            onset_s=first.began,
            where=source.where if source is not None else warm.where,
            subject=_subject(first),
        )


def _is_slow(first: First) -> bool:
    faster = first.each is None or first.each * FASTER <= first.seconds
    gets_on = first.came or first.moves
    return first.seconds >= SECONDS and first.seconds >= SHARE * first.of and faster and gets_on


def _is_shuffled(first: First) -> bool:
    """A buffer that samples are drawn from at random has to be full first. That is shuffle-buffer-large."""
    return any(held.shuffles for load in first.loads for held in load.held_back)


def _is_one_sample(first: First, warm: Warming) -> bool:
    """One sample of many that takes long once is not a warm-up: it may be the largest of all."""
    if first.loader is None or first.loader.iterable or first.fed.sources or first.fed.progress:
        return False
    return warm.first_sample or warm.longest >= MOST * first.seconds


def _most(fed: Feeding) -> Source | None:
    """The call that most of the time went into."""
    return max((*fed.tokenizers, *fed.readers), key=lambda source: source.calls.total, default=None)


def _subject(first: First) -> Subject:
    if first.loader is not None:
        return Subject("loader", first.loader.name)
    buffer = first.fed.buffer
    return Subject("buffer", buffer.name) if buffer is not None else Subject("loader", "a generator")


def _cause(main: Process, first: First, warm: Warming) -> str:
    what = _what(first, warm)
    if first.came:
        after = f"; later ones took {duration(first.later)} each" if first.later is not None else ""
        took = f"the first batch took {duration(first.seconds)}{f', {what}' if what else ''}"
        return f"Slow start, not a hang: {took}{after}."
    if not main.alive:
        loading = f"its first batch was still loading, after {duration(first.seconds)}"
        return f"The run ended while {loading}: slow, not hung{f', {what}' if what else ''}."
    buffer, left = first.fed.buffer, first.fed.left
    if buffer is None:
        loading = f"the first batch has been loading for {duration(first.seconds)}"
        return f"Slow start, not a hang: {loading}{f', {what}' if what else ''}."
    ready = f", ready in about {duration(left)}" if left is not None else ""
    full = f"{percent(buffer.have / buffer.need)} full"
    return f"Slow start, not a hang: the loader fills {buffer.name} before the first batch: {full}{ready}."


def _spent(first: First) -> tuple[float, float]:
    """Seconds of the first batch in tokenising, and in reading."""
    fed = first.fed
    tokenised, read = (sum(call.calls.total - call.later for call in some) for some in (fed.tokenizers, fed.readers))
    return tokenised, read


def _what(first: First, warm: Warming) -> str:
    """What most of the time went into."""
    if _most(first.fed) is None:
        return words(warm, first)
    tokenised, read = _spent(first)
    if tokenised >= MOST * first.seconds:
        return "mostly tokenising"
    return "mostly reading" if read >= MOST * first.seconds else ""


def _seen(case: Case, main: Process, first: First, warm: Warming) -> Iterator[str]:
    tokenised, read = _spent(first)
    most, what = max((tokenised, "tokenising"), (read, "reading"))
    share = f"; {percent(min(most / first.seconds, 1.0))} of it {what}" if most and first.seconds else ""
    if first.came:
        took = f"took {duration(first.seconds)} of the {duration(first.of)} since it was requested"
        yield f"the first batch {took}{share}"
    else:
        yield f"no batch since it was requested {duration(first.seconds)} ago{share}"
    if first.loader is not None:
        yield f"loader: {first.loader.name}"
    if first.fed.sources:
        yield so_far(case, main)
    else:
        yield from seen(warm, first)
    told = filling(first.fed, came=first.came)
    if told:
        yield told
    for source in (*first.fed.readers, *first.fed.tokenizers):
        if source.items or source.files:
            threads = f", {many(source.threads, 'thread')}" if source.threads is not None else ""
            at = f" ({short(source.where)})" if source.where is not None else ""
            calls = f"{many(source.calls.count, 'call')}, {duration(source.calls.total)} in all"
            yield f"{source.name}{at}: {calls}{threads}"


def _options(case: Case, main: Process, first: First, warm: Warming) -> Iterator[Remedy]:
    host = case.host_of(main)
    cpus = host.cpus if host is not None else 0
    if not first.came and main.alive:
        left = first.fed.left
        yield Remedy(f"Wait: the first batch is coming{f', in about {duration(left)}' if left is not None else ''}")
    yield from _faster(first, cpus) if _most(first.fed) is not None else advice(warm, first)
    if first.fed.buffer is not None:
        yield Remedy("For a test only, use a smaller batch: it fills sooner, but changes the training")


def _faster(first: First, cpus: int) -> Iterator[Remedy]:
    fed = first.fed
    tokenised, read = _spent(first)
    single = [source for source in fed.tokenizers if one_by_one(source)]
    few = [source for source in fed.tokenizers if source.threads is not None and source.threads < cpus]
    if tokenised >= MOST * first.seconds:
        if single:
            yield in_batches(single[0], cpus)
        if few:
            yield more_threads(few[0], cpus)
        yield BEFOREHAND
    elif read >= MOST * first.seconds:
        yield Remedy(
            "Write the data as larger row groups in larger files, so each read gets more rows",
            code=["pq.write_table(table, path, row_group_size=10_000)"],
        )
        yield Remedy("Read from a disk of this machine, if these files are on network storage")
    else:
        yield Remedy(
            f"Profile the loader's own code: reading and tokenising took only {duration(tokenised + read)} of it"
        )
    if fed.per_document is not None and fed.per_document < SHORT and fed.tokens:
        yield Remedy(f"Read more documents at a time: they average only {fed.per_document:,.0f} tokens")
