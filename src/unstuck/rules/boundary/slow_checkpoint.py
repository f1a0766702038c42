"""Saving checkpoints holds up the training for a large share of the run.

## What it looks at
Every torch.save, torch.distributed.checkpoint and safetensors call of a main process: from which line, how long, how
many bytes were on disk afterwards, whether it was in the background, and whether training went on after it. Added up,
against the time that the run has trained.

## Why it happens
torch.save returns when the last byte has been handed to the file system. On network storage, a slow disk or one that is
shared that takes bytes divided by its speed, and all GPUs wait meanwhile: those of the other ranks in the next barrier
or all_reduce. Each checkpoint costs the same again, however little has changed.

## What to do
Copy the state to CPU memory and write it in the background (`torch.distributed.checkpoint.async_save`, or a thread of
your own); save to a local disk and copy from there; save less often. What is lost at a crash is the time since the
last one: an hour's worth is a usual choice.

## How sure it is
Certain of the seconds. It speaks when two or more checkpoints, after which training went on, took 15 % of the run and
two seconds or more. One large checkpoint in a short run is no habit, and a checkpoint at the end holds up nobody.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.side_work import Held, held
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Saved
from ...wording.settings import framework_of, in_words_of
from ...wording.text import duration, line, many, percent, short, size, who
from ..rule import rule

TIMES = 2  # that training went on after: one alone is the price of every run
SHARE = 0.15  # of the run: below that, saving in another way is not worth the trouble
SECONDS = 2.0  # in all: less is noise in a short run
OFTEN = 1.0  # seconds between two: whoever saves that often has to save less often, not faster


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    all_of_them = [held(one) for one in case.mains]
    for one in sorted(all_of_them, key=lambda one: -one.seconds)[:1]:
        ran = lasted(one.process)
        if len(one.saves) < TIMES or one.seconds < SECONDS or one.seconds < SHARE * ran:
            continue
        longest = max(one.saves, key=lambda each: each.seconds)
        yield case.finding(
            one.process,
            cause=_cause(one, longest, ran),
            seen=list(_seen(one, longest, ran, all_of_them)),
            remedy=_remedy(one, longest, ran),
            onset_s=one.saves[0].at,
            where=longest.where,
            subject=Subject("file", longest.path),
        )


def _cause(one: Held, longest: Saved, ran: float) -> str:
    spot = f" at {short(longest.where)}" if longest.where is not None else ""
    speed = f", at {size(one.written / one.seconds)}/s" if one.written else ""
    return (
        f"{percent(one.seconds / ran)} of the run goes into saving checkpoints: {who(one.process)} stood still for "
        f"{len(one.saves)} of them{spot}, {duration(one.seconds / len(one.saves))} each{speed}."
    )


def _seen(one: Held, longest: Saved, ran: float, others: list[Held]) -> Iterator[str]:
    of = f" of {size(longest.size)}" if longest.size else ""
    yield f"{many(len(one.saves), 'checkpoint')} took {duration(one.seconds)} of {duration(ran)}"
    yield f"the longest: {longest.path}{of} in {duration(longest.seconds)}, {line(longest.where)}".rstrip(", ")
    if one.written is not None:
        yield f"{size(one.written)} were written in all"
    waiting = [each.process for each in others if each.process is not one.process and not each.saves]
    if waiting:
        yield f"{many(len(waiting), 'other rank')} saved nothing, and waited meanwhile where the ranks meet next"


def _remedy(one: Held, longest: Saved, ran: float) -> Remedy:
    every = (one.saves[-1].at - one.saves[0].at) / (len(one.saves) - 1)
    rarer = max(round(one.seconds / (0.02 * ran)), 2)
    way = in_words_of(
        one.process,
        "",
        lightning=" (ModelCheckpoint(every_n_train_steps=…) or (every_n_epochs=…))",
        transformers=' (TrainingArguments(save_strategy="steps", save_steps=…))',
    )
    share = f"with one in {rarer} of them{way}, about 2 % of the run would go into it."
    if every < OFTEN:
        return Remedy(f"Save less often than every {duration(every)}: {share}")
    if longest.how == "together":
        aside = (
            "Call `future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)`, and `future.result()` "
            "before the next one: writing then goes on beside the training."
        )
        return Remedy(f"{aside} Or save less often: {share}")
    if framework_of(one.process) is not None:
        return Remedy(f"Save less often: {share} Or save to a local disk first and copy the file from there.")
    aside = (
        f"Write in the background: copy the state to the CPU, `{_COPY}`, save the copy in a thread, `{_THREAD}`, and "
        "`writer.join()` before the next one. Or save to a local disk first and copy the file from there."
    )
    return Remedy(f"{aside} Or save less often: {share}")


_COPY = "copy = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}"
_THREAD = "writer = threading.Thread(target=torch.save, args=(copy, path)); writer.start()"
