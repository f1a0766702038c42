"""What lies open in Lightning's Trainer and its loops: settings, data, how many batches were announced and came.

And its hooks, while a window is open: Lightning asks its profiler around each of them, in all versions.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ..core.frames import variables
from ..core.guard import Guard
from ..core.objects import attributes_of
from .trainers import (
    Hook,
    begin_hook,
    callbacks_of,
    does_nothing,
    empty_hooks,
    function_of,
    own_hooks,
    place_of,
    settings_of,
    version_of,
)

NAME = "Lightning"
SETTINGS = (
    "limit_train_batches", "limit_val_batches", "limit_test_batches", "val_check_interval", "check_val_every_n_epoch",
    "num_sanity_val_steps", "accumulate_grad_batches", "gradient_clip_val", "log_every_n_steps", "overfit_batches",
    "reload_dataloaders_every_n_epochs",
)  # fmt: skip
LIMITS = ("max_epochs", "min_epochs")
HOOKS = ("on_",)
STEPS = ("training_step", "validation_step")
LOADERS = ("train_dataloader", "val_dataloader")

OWNERS = ("callback", "pl_module")  # how the callers of the profiler name whose hook it is


def facts_of(trainer: Any) -> dict[str, Any]:
    package = type_package(trainer)
    library = package.partition(".")[0]
    module, data = _module(trainer), _data(trainer)
    own = own_hooks(module, HOOKS, library) if module is not None else []
    return {
        "name": NAME,
        "package": package,
        "version": version_of(package),
        "what": _value(attributes_of(getattr(trainer, "state", None)).get("fn")),
        "settings": _settings(trainer),
        "module": type(module).__name__ if module is not None else "",
        "data": type(data).__name__ if data is not None else "",
        "data_at": _written(data),
        "hooks": own[:32],
        "empty": empty_hooks(module, STEPS) if module is not None else [],
        "callbacks": callbacks_of(getattr(trainer, "callbacks", None), HOOKS),
        "validates": _validates(trainer, module, library),
    }


def type_package(trainer: Any) -> str:
    """Of the library's own class: the user's may be made of it. lightning.pytorch, or pytorch_lightning."""
    for kind in type(trainer).__mro__:
        if kind.__module__.startswith("lightning.pytorch"):
            return "lightning.pytorch"
        if kind.__module__.startswith("pytorch_lightning"):
            return "pytorch_lightning"
    return ""


def stage_of(trainer: Any) -> str:
    return _value(attributes_of(getattr(trainer, "state", None)).get("stage"))


def combined(loop: Any) -> list[Any]:
    """The loaders that a loop goes through."""
    found = getattr(getattr(loop, "_combined_loader", None), "flattened", None)
    return found if isinstance(found, list) else []


def progress_of(trainer: Any, loop: Any) -> dict[str, Any]:
    """Known once the data is set up."""
    return {
        "announced": _number(attributes_of(loop).get("max_batches")),
        "validates_after": _number(attributes_of(trainer).get("val_check_batch")),
    }


def delivered(trainer: Any, loop: Any) -> dict[str, Any]:
    """Of an epoch that has ended. One that was stopped has not come to the end of its data."""
    fetcher = getattr(loop, "_data_fetcher", None)
    count, length = getattr(fetcher, "fetched", None), getattr(fetcher, "length", None)
    if length is None:  # then it validates after a number that it was told, or at the end
        length = _number(attributes_of(trainer).get("val_check_batch"))
    through = bool(getattr(fetcher, "done", False)) and isinstance(count, int)
    short = through and isinstance(count, int) and isinstance(length, int) and count < length
    return {"delivered": count if through else None, "short": short, "due": _is_due(trainer, loop)}


def _is_due(trainer: Any, loop: Any) -> bool:
    """It validates in this epoch at all, and at a batch that was announced for it."""
    every = attributes_of(trainer).get("check_val_every_n_epoch")
    epochs = attributes_of(attributes_of(attributes_of(loop).get("epoch_progress")).get("current")).get("processed")
    batch, most = attributes_of(trainer).get("val_check_batch"), attributes_of(loop).get("max_batches")
    if type(every) is not int or type(epochs) is not int or batch is None or most is None:
        return False
    validates = _validates(trainer, _module(trainer), type_package(trainer).partition(".")[0])
    return bool(validates) and (epochs + 1) % every == 0 and batch <= most


def _settings(trainer: Any) -> dict[str, Any]:
    fit = getattr(trainer, "fit_loop", None)
    steps = getattr(getattr(fit, "epoch_loop", None), "max_steps", None)
    found = {**settings_of(fit, LIMITS), **settings_of(trainer, SETTINGS)}
    strategy = type(_strategy(trainer)).__name__
    return {**found, **({"max_steps": steps} if type(steps) is int and steps >= 0 else {}), "strategy": strategy}


def _strategy(trainer: Any) -> Any:
    return attributes_of(getattr(trainer, "_accelerator_connector", None)).get("strategy")


def _module(trainer: Any) -> Any:
    return attributes_of(_strategy(trainer)).get("_lightning_module")


def _data(trainer: Any) -> Any:
    """The DataModule, if there is one."""
    selector = attributes_of(getattr(trainer, "_data_connector", None)).get("_datahook_selector")
    return attributes_of(selector).get("datamodule")


def _written(data: Any) -> dict[str, Any] | None:
    functions = [function_of(data, name) for name in LOADERS] if data is not None else []
    return next((place for one in functions if (place := place_of(one)) is not None), None)


def _validates(trainer: Any, module: Any, library: str) -> bool | None:
    """It has data to validate with, something to do with it, and was not told to leave it."""
    loop = getattr(getattr(getattr(trainer, "fit_loop", None), "epoch_loop", None), "val_loop", None)
    source = attributes_of(getattr(loop, "_data_source", None))
    if module is None or not source:
        return None
    instance, name = source.get("instance"), source.get("name")
    is_module = any(one.__module__.partition(".")[0] == library for one in type(instance).__mro__)
    defined = instance is not None and (not is_module or _overrides(instance, str(name), library))
    limit = attributes_of(trainer).get("limit_val_batches")
    return defined and _overrides(module, "validation_step", library) and limit != 0


def _overrides(owner: Any, name: str, library: str) -> bool:
    first = next((kind for kind in type(owner).__mro__ if name in vars(kind)), None)
    return name in attributes_of(owner) or (first is not None and first.__module__.partition(".")[0] != library)


def _value(enum: Any) -> str:
    found = getattr(enum, "value", enum)
    return found if isinstance(found, str) else ""


def _number(value: Any) -> int | None:
    """None: there is none, or it is without end."""
    return value if type(value) is int else int(value) if type(value) is float and value < 1 << 60 else None


class Window:
    """While it is open, the trainer's profiler has a `profile` of ours before its own."""

    __slots__ = ("mine", "profiler")

    def __init__(self, trainer: Any, guard: Guard) -> None:
        profiler = getattr(trainer, "profiler", None)
        own = attributes_of(profiler)
        self.profiler = self.mine = None
        if profiler is not None and "profile" not in own and hasattr(profiler, "profile"):
            self.profiler, self.mine = profiler, _profile(profiler.profile, guard)
            own["profile"] = self.mine

    def close(self) -> None:
        own = attributes_of(self.profiler)
        if self.mine is not None and own.get("profile") is self.mine:
            del own["profile"]


class Around:
    """What the profiler gave, with the hook's time around it."""

    __slots__ = ("begun", "guard", "inner")

    def __init__(self, inner: Any, begun: Hook, guard: Guard) -> None:
        self.inner, self.begun, self.guard = inner, begun, guard

    def __enter__(self) -> Any:
        return self.inner.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> Any:
        try:
            return self.inner.__exit__(kind, error, trace)
        finally:
            self.guard.quietly(self.begun.ends, error)


def _profile(original: Any, guard: Guard) -> Any:
    def profile(*args: Any, **kwargs: Any) -> Any:
        inner = original(*args, **kwargs)
        begun = guard.result(_hook, sys._getframe(1))
        return inner if begun is None else Around(inner, begun, guard)

    return profile


def _hook(frame: FrameType) -> Hook | None:
    """Whose hook it is, and which, as the caller has it. Those that do nothing are passed over: base classes' are."""
    known = variables(frame)
    name, function = known.get("hook_name"), known.get("fn")
    owner = next((known[one] for one in OWNERS if known.get(one) is not None), None)
    if type(name) is not str or owner is None or function is None or does_nothing(function):
        return None
    return begin_hook(owner, name, function)
