"""The first batch takes long because a buffer, an index or a cache is filled before it; it gets on, and is slow.

## What it looks at
When the first batch was asked for and when it came, and how long those after it took; starting workers and the first
step are no part of it. What was read and tokenised until then: documents, tokens, seconds inside the tokenizer and the
reader, threads; and the buffer, where the loop that fills one is recognised (`while len(buffer) < needed`) or told by
`unstuck.progress`: have, need, rate, time left. Where it is the dataset's own code: the samples that were loaded, how
long one of them took, and the lines at which the loading was met.

## Why it happens
A loader that packs tokens gives its first batch only when its buffer holds enough: B * T + 1 tokens (32 * 2,048 + 1 =
65,537), or a number of documents. Others read all files into an index or a cache when they are asked for the first
sample. Until then one process computes at full load, the GPU idles, and no step comes. That is normal, and takes long
with short documents, little data per file, or one thread for all of it.

## What to do
Wait, if it is nearly full. Faster: more tokenizer threads, documents handed over in batches, larger row groups and
files, or tokens and indices prepared beforehand. For a test only: a smaller batch, which changes the training.

## How sure it is
Certain of the seconds. It speaks when the first batch has taken ten seconds or more, which is at least half of all the
time since it was asked for, and those after it come far faster: what takes as long every time is another rule's, and
so is a shuffle buffer. While it has not come, it speaks only if something was read, loaded, made or kept in the last
ten seconds. Time in which the run was ready and other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_first
from ...analysis.first_batch import Feeding, First, Warming, advice, filling, first_batch, seen, so_far, warming, words
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Source
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short, who
from ..rule import Level, rule

SECONDS = 10.0  # what somebody waits without a word before he begins to wonder
SHARE = 0.5  # of the time since it was asked for: a long training does not care about its first minute
FASTER = 4  # times: batches that are not so much faster are no sign of a warm-up
MOST = 0.5  # of the first batch in one kind of call: then that call is what to look at
SHORT = 100  # tokens: documents below that are short


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
        yield case.finding(
            main,
            cause=_cause(main, first, warm),
            seen=list(_seen(case, main, first, warm)),
            remedy=_remedy(case, main, first, warm),
            onset_s=first.began,
            where=source.where if source is not None else warm.where,
            subject=_subject(first),
        )


def _is_slow(first: First) -> bool:
    faster = first.each is None or first.each * FASTER <= first.seconds
    gets_on = first.came or first.moves
    return first.seconds >= SECONDS and first.seconds >= SHARE * first.of and faster and gets_on


def _is_shuffled(first: First) -> bool:
    """A buffer that samples are drawn from at random has to be full first: that it is filled anew is another rule's."""
    return any(one.shuffles for load in first.loads for one in load.held_back)


def _is_one_sample(first: First, warm: Warming) -> bool:
    """One sample of many that takes long once is no warm-up: it may be the largest of all."""
    if first.loader is None or first.loader.iterable or first.fed.sources or first.fed.progress:
        return False
    return warm.first_sample or warm.longest >= MOST * first.seconds


def _most(fed: Feeding) -> Source | None:
    """The call that most of the time went into."""
    return max((*fed.tokenizers, *fed.readers), key=lambda one: one.calls.total, default=None)


def _subject(first: First) -> Subject:
    if first.loader is not None:
        return Subject("loader", first.loader.name)
    buffer = first.fed.buffer
    return Subject("buffer", buffer.name) if buffer is not None else Subject("loader", "a generator")


def _cause(main: Process, first: First, warm: Warming) -> str:
    whose, what = _whose(main, first), _what(first, warm)
    if first.came:
        after = f", those after it {duration(first.later)} each" if first.later is not None else ""
        return (
            f"The first batch of {whose} took {duration(first.seconds)} of the {duration(first.of)} since it was "
            f"asked for{after}{f': {what}' if what else ''}. That is a slow warm-up, no hang."
        )
    left = first.fed.left
    if not main.alive:
        ended = f"{whose[:1].upper()}{whose[1:]} had been filling its first batch for {duration(first.seconds)}"
        return f"{ended} when it ended, and got on{f': {what}' if what else ''}."
    ready = f" It will be ready in about {duration(left)}." if left is not None else ""
    gets_on = f"has been filling its first batch for {duration(first.seconds)} and gets on"
    return f"{whose[:1].upper()}{whose[1:]} {gets_on}{f': {what}' if what else ''}.{ready}"


def _whose(main: Process, first: First) -> str:
    if first.loader is None or first.fed.sources:
        return who(main)
    return first.loader.name + ("" if main.rank is None else f" of rank {main.rank}")


def _what(first: First, warm: Warming) -> str:
    fed, buffer = first.fed, first.fed.buffer
    if not fed.readers and not fed.tokenizers:
        if buffer is None or first.came:
            return words(warm, first)
        return f"{buffer.name} holds {buffer.have:,} of {buffer.need:,} {buffer.unit}".rstrip()
    rows = f"{many(fed.rows, 'row')} read" if fed.readers else ""
    tokens = f"{many(fed.documents, 'document')} made into {many(fed.tokens, 'token')}" if fed.tokenizers else ""
    return " and ".join(part for part in (rows, tokens) if part)


def _seen(case: Case, main: Process, first: First, warm: Warming) -> Iterator[str]:
    if first.fed.sources:
        yield so_far(case, main)
    else:
        yield from seen(warm, first)
    told = filling(first.fed, came=first.came)
    if told:
        yield told
    for one in (*first.fed.readers, *first.fed.tokenizers):
        if one.items or one.files:
            threads = f", {many(one.threads, 'thread')}" if one.threads is not None else ""
            yield (
                f"{one.name} at {line(one.where) or 'a line unknown'}: {many(one.calls.count, 'call')}, "
                f"{duration(one.calls.total)} in all{threads}"
            )


def _remedy(case: Case, main: Process, first: First, warm: Warming) -> Remedy:
    host = case.host_of(main)
    cpus = host.cpus if host is not None else 0
    parts = list(_faster(first, cpus)) if _most(first.fed) is not None else advice(warm, first)
    if not first.came and main.alive:
        left = first.fed.left
        parts.insert(0, f"Wait: it gets on{f', about {duration(left)} to go' if left is not None else ''}.")
    buffer = first.fed.buffer
    if buffer is not None:
        parts.append(
            f"For a test only, a smaller batch (less than {buffer.need:,} {buffer.unit or 'items'} in {buffer.name}) "
            "comes sooner; it changes the training."
        )
    return Remedy(" ".join(parts))


def _faster(first: First, cpus: int) -> Iterator[str]:
    fed = first.fed
    tokenised, read = (sum(one.calls.total - one.later for one in some) for some in (fed.tokenizers, fed.readers))
    one_by_one = [one for one in fed.tokenizers if one.items and one.calls.count >= one.items > 1]
    few = [one for one in fed.tokenizers if one.threads is not None and one.threads < cpus]
    if tokenised >= MOST * first.seconds:
        yield f"{percent(min(tokenised / first.seconds, 1.0))} of it is tokenising."
        if few:
            yield f"Give the tokenizer {cpus} threads instead of {few[0].threads}{_how(few[0])}."
        if one_by_one:
            yield f"Hand documents over in batches at {short(one_by_one[0].where)}: encode_batch uses all processors."
        if not few and not one_by_one:
            yield "It uses the processors there are: tokenise beforehand and read tokens from disk."
    elif read >= MOST * first.seconds:
        share = percent(min(read / first.seconds, 1.0))
        yield f"{share} of it is reading: larger row groups, more data per file, a nearer disk."
    else:
        yield (
            f"Only {duration(tokenised + read)} of it went into reading and tokenising: look at what the loader's own "
            "code does between these calls."
        )
    if fed.per_document is not None and fed.per_document < SHORT and fed.tokens:
        yield f"Documents are short ({fed.per_document:,.0f} tokens on average): read more of them at a time."


def _how(source: Source) -> str:
    if source.name.startswith("tiktoken"):
        return f" (num_threads at {short(source.where)})"
    return " (TOKENIZERS_PARALLELISM or RAYON_NUM_THREADS limit it)"
