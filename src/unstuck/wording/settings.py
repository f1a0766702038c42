"""How a setting is written in this run: a framework that makes the loader and runs the loop has words of its own."""

from __future__ import annotations

from ..evidence import Evidence
from ..evidence.frameworks import LIGHTNING, TRANSFORMERS, Framework
from ..evidence.loader import Loader
from ..evidence.process import Process
from .text import many

TRAINS = ("fit", "train")
ARGUMENTS, WEB_LOADER = "TrainingArguments", "wds.WebLoader"  # makers of loaders that are told how
IN_ARGUMENTS = {
    "num_workers": "dataloader_num_workers",
    "prefetch_factor": "dataloader_prefetch_factor",
    "persistent_workers": "dataloader_persistent_workers",
    "pin_memory": "dataloader_pin_memory",
    "drop_last": "dataloader_drop_last",
    "batch_size": "per_device_train_batch_size",
}


def settings(loader: Loader | None, **wanted: object) -> str:
    """`num_workers=8`, or what has to be written instead of it, and where."""
    plain = ", ".join(f"{name}={value!r}" for name, value in wanted.items())
    made_by = loader.made_by if loader is not None else ""
    if made_by == ARGUMENTS and all(name in IN_ARGUMENTS for name in wanted):
        return f"{ARGUMENTS}({', '.join(f'{IN_ARGUMENTS[name]}={value!r}' for name, value in wanted.items())})"
    if made_by == WEB_LOADER:
        return f"{WEB_LOADER}(…, {plain})"
    return f"{plain} in the DataLoader of {made_by}" if made_by and made_by != ARGUMENTS else plain


def once(loader: Loader) -> str:
    """How a loader is made once, and not with every epoch."""
    if loader.made_by == ARGUMENTS:
        return "call train() once, for all epochs"
    if loader.made_by == WEB_LOADER:
        return f"make the {WEB_LOADER} once, before the loop over epochs"
    if loader.made_by:
        return "keep Trainer(reload_dataloaders_every_n_epochs=0)"
    return "make the DataLoader once, before the loop over epochs"


def framework_of(process: Process) -> Framework | None:
    """The one that runs this process's loop, or did so last. One that only evaluates counts if no other trains."""
    training = [one for one in process.frameworks if one.what in TRAINS]
    return next(reversed(training or process.frameworks), None)


def in_words_of(process: Process, plain: str, *, lightning: str = "", transformers: str = "") -> str:
    """The one of these that the user of this run would write."""
    framework = framework_of(process)
    words = {LIGHTNING: lightning, TRANSFORMERS: transformers}
    return words.get(framework.name if framework is not None else "", "") or plain


def trainer_of(evidence: Evidence) -> str:
    """The trainer that runs this run's loop, in words. Empty: there is none."""
    known = [
        found
        for process in evidence.recording or ()
        if process.role == "main" and (found := framework_of(process)) is not None
    ]
    return in_words(known[0]) if known else ""


def in_words(framework: Framework) -> str:
    """`Lightning 2.6.6: Trainer.fit(Net, datamodule=Images), 3 callbacks`; `transformers 5.2: Trainer(Net).train()`."""
    model, what = framework.module or "…", framework.what
    inside = f"{model}, datamodule={framework.data}" if framework.data else model
    told = f"Trainer({model}).{what}()" if framework.name == TRANSFORMERS else f"Trainer.{what}({inside})"
    callbacks = f", {many(len(framework.callbacks), 'callback')}" if framework.callbacks else ""
    return f"{framework.name} {framework.version}".rstrip() + f": {told}{callbacks}"
