"""Saving checkpoints pauses the training for a large share of the run.

## It means
torch.save returns when the last byte is with the file system. On network storage, a slow disk or one that is shared,
that takes the bytes divided by its speed, and all GPUs wait: those of the other ranks in the next barrier or
all_reduce. Each checkpoint costs the same again, however little has changed.

## Fix
Save less often: what is lost at a crash is the time since the last checkpoint, and an hour's worth is a usual choice.
Or let the training wait for memory only, and write the file in a thread. The whole state goes into the file, as before:

```python
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
torch.save(state, path)  # before
```

```python
buffer = io.BytesIO()  # after: needs memory for one checkpoint
torch.save(state, buffer)
writer = threading.Thread(target=pathlib.Path(path).write_bytes, args=(buffer.getbuffer(),))
writer.start()
...
writer.join()  # before the next save
```

With torch.distributed.checkpoint (torch 2.4 or later). The process group needs a CPU backend, or it raises "A CPU
backend must be enabled for async save":

```python
torch.distributed.init_process_group("cpu:gloo,cuda:nccl")
future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)
...
future.result()  # before the next save
```

Or save to a local disk and copy the file from there.

## Check it yourself

```sh
dd if=/dev/zero of=/path/to/checkpoints/.speed-test bs=64M count=16 conv=fsync
rm /path/to/checkpoints/.speed-test
```

```python
begun = time.perf_counter()
torch.save(state, path)
print(f"{time.perf_counter() - begun:.1f} s, {os.path.getsize(path) >> 20} MiB")
```

## Not this, if
- the other ranks wait for a rank that saves alone and never return: [rank0-only-collective](rank0-only-collective.md)
- saving fails: [checkpoint-disk-full](checkpoint-disk-full.md), [checkpoint-missing](checkpoint-missing.md)
- something else takes the time between epochs: [epoch-boundary-gap](epoch-boundary-gap.md)

## How sure
Judged from every torch.save, torch.distributed.checkpoint and safetensors call of a main process: from which line, how
long, how many bytes were on disk afterwards, whether it ran in the background, and whether training went on after it;
added up, against the time that the run has trained. Certain of the seconds. It speaks when two or more checkpoints,
after which training went on, took 15 % of the run and two seconds or more. One large checkpoint in a short run is no
habit, and a checkpoint at the end pauses nothing.

## Seen in
- https://github.com/pytorch/torchtitan/issues/1301: 6 minutes to save a checkpoint of an 8B model
- https://github.com/NVIDIA-NeMo/Automodel/issues/616: synchronous checkpoints to network storage leave GPUs idle
- https://github.com/huggingface/transformers/issues/23419: the GPUs are idle while a checkpoint is written
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.loading import lasted
from ...analysis.side_work import Held, held
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Saved
from ...wording.settings import framework_of, in_words_of
from ...wording.text import duration, line, many, percent, short, size
from ..rule import rule

TEXTS = ("A CPU backend must be enabled for async save",)
TIMES = 2  # that training went on after: one alone is the price of every run
SHARE = 0.15  # of the run: below that, saving in another way is not worth the trouble
SECONDS = 2.0  # in all: less is noise in a short run
COSTS = 0.02  # of the run: what saving may take


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
            remedy=_rarer(one, ran),
            alternatives=_faster(one, longest),
            onset_s=one.saves[0].at,
            where=longest.where,
            subject=Subject("file", longest.path),
        )


def _cause(one: Held, longest: Saved, ran: float) -> str:
    kind = (
        "torch.distributed.checkpoint" if longest.how == "together" else "safetensors" if longest.how else "torch.save"
    )
    each = duration(one.seconds / len(one.saves))
    share = f"{percent(one.seconds / ran)} of the run is spent saving checkpoints"
    return f"{share}, {each} each, because {kind} blocks training while it writes."


def _seen(one: Held, longest: Saved, ran: float, others: list[Held]) -> Iterator[str]:
    speed = f", at {size(one.written / one.seconds)}/s" if one.written else ""
    yield f"{many(len(one.saves), 'checkpoint')} took {duration(one.seconds)} of {duration(ran)}{speed}"
    of = f" of {size(longest.size)}" if longest.size else ""
    spot = f" at {line(longest.where)}" if longest.where is not None else ""
    yield f"the longest save: {longest.path}{of} in {duration(longest.seconds)}{spot}"
    if one.written is not None:
        yield f"{size(one.written)} written in all"
    waiting = [each.process for each in others if each.process is not one.process and not each.saves]
    if waiting:
        yield f"{many(len(waiting), 'other rank')} saved nothing and waited where the ranks meet next"


def _rarer(one: Held, ran: float) -> Remedy:
    every = (one.saves[-1].at - one.saves[0].at) / (len(one.saves) - 1)
    rarer = max(round(one.seconds / (COSTS * ran)), 2)
    steps = (one.saves[-1].step - one.saves[0].step) // (len(one.saves) - 1) * rarer
    spot = f"  # around the save at {short(one.saves[0].where)}" if one.saves[0].where is not None else ""
    code = in_words_of(
        one.process,
        f"if step % {steps} == 0:{spot}",
        lightning=f"ModelCheckpoint(every_n_train_steps={steps})",
        transformers=f'TrainingArguments(save_strategy="steps", save_steps={steps})',
    )
    return Remedy(
        f"Save every {duration(every * rarer)} at most, not every {duration(every)}: "
        "saving then takes about 2 % of the run",
        code=[code] if steps > 0 else [],
    )


def _faster(one: Held, longest: Saved) -> list[Remedy]:
    local = Remedy("Save to a local disk first, and copy the file from there in the background")
    if longest.how == "together":
        aside = Remedy(
            "Save in the background (torch 2.4 or later; the process group needs a CPU backend, too)",
            code=[
                'torch.distributed.init_process_group("cpu:gloo,cuda:nccl")',
                "future = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
                "future.result()  # before the next save",
            ],
        )
        return [aside, local]
    if framework_of(one.process) is not None or longest.how:
        return [local]
    aside = Remedy(
        "Save the same state into memory and write the file in a thread, if memory holds one checkpoint more",
        code=[
            "buffer = io.BytesIO()",
            "torch.save(state, buffer)  # all that is saved now, the optimizer included",
            "writer = threading.Thread(target=pathlib.Path(path).write_bytes, args=(buffer.getbuffer(),))",
            "writer.start()  # and writer.join() before the next save",
        ],
    )
    return [aside, local]
