"""What lies open in transformers' Trainer: its arguments, its data, and how many batches were announced.

And the time that each callback takes for one event: the handler's list of callbacks is, for this one event, a list that
notices when the next is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.guard import Guard
from ..core.objects import attributes_of
from ..loading.loaders import entry_of
from .accelerate import base_of
from .trainers import Hook, Run, begin_hook, callbacks_of, does_nothing, function_of, settings_of, version_of

NAME, PACKAGE = "transformers", "transformers"
SETTINGS = (
    "num_train_epochs", "max_steps", "per_device_train_batch_size", "per_device_eval_batch_size",
    "gradient_accumulation_steps", "learning_rate", "lr_scheduler_type", "eval_strategy", "evaluation_strategy",
    "eval_steps", "eval_delay", "eval_on_start", "save_strategy", "save_steps", "logging_strategy", "logging_steps",
    "dataloader_num_workers", "dataloader_drop_last", "dataloader_pin_memory", "dataloader_persistent_workers",
    "dataloader_prefetch_factor", "bf16", "fp16", "gradient_checkpointing", "load_best_model_at_end", "output_dir",
)  # fmt: skip
HOOKS = ("on_",)


def facts_of(trainer: Any, what: str) -> dict[str, Any]:
    own = attributes_of(trainer)
    model, arguments = own.get("model"), own.get("args")
    settings = settings_of(arguments, SETTINGS)
    strategy = settings.get("eval_strategy", settings.get("evaluation_strategy"))
    return {
        "name": NAME,
        "package": PACKAGE,
        "version": version_of(PACKAGE),
        "what": what,
        "settings": settings,
        "module": type(model).__name__ if model is not None else "",
        "callbacks": callbacks_of(attributes_of(own.get("callback_handler")).get("callbacks"), HOOKS),
        "validates": own.get("eval_dataset") is not None and strategy != "no" if what == "train" else None,
    }


def progress_of(handler: Any, args: Any) -> dict[str, Any]:
    """Known when the training begins: the loader's own length, and after how many steps it validates."""
    base = base_of(getattr(handler, "train_dataloader", None))
    entry = entry_of(base) if "dataset" in attributes_of(base) else None
    state = args[1] if len(args) > 1 else None
    steps = attributes_of(state).get("eval_steps")
    every = settings_of(args[0] if args else None, ("eval_strategy", "evaluation_strategy"))
    return {
        "announced": entry.length if entry is not None and entry.length else None,
        "validates_after": steps if "steps" in every.values() and type(steps) is int else None,
    }


def is_missed(trainer: Any, run: Run) -> bool:
    """It went to the end of its data, never came to the step at which it validates, and had announced that it would."""
    own = attributes_of(trainer)
    state, control = attributes_of(own.get("state")), attributes_of(own.get("control"))
    every = settings_of(own.get("args"), ("eval_strategy", "evaluation_strategy"))
    done, most, steps = (state.get(name) for name in ("global_step", "max_steps", "eval_steps"))
    if "steps" not in every.values() or own.get("eval_dataset") is None or run.validations or not run.short:
        return False
    if type(done) is not int or type(most) is not int or type(steps) is not int:
        return False
    return 0 < done < min(steps, most) and not control.get("should_training_stop")


class Timed(list):  # type: ignore[type-arg]
    """The callbacks. What is added or removed meanwhile is so for good."""

    def __init__(self, handler: Any, event: str, guard: Guard) -> None:
        self.handler, self.event, self.guard = handler, event, guard
        self.own: Any = None
        self.now: Hook | None = None
        known = getattr(handler, "callbacks", None)
        super().__init__(known if type(known) is list else ())
        if type(known) is list:
            self.own, handler.callbacks = known, self

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            self.guard.quietly(self._next, one)
            yield one
        self.guard.quietly(self._next, None)

    def _next(self, callback: object) -> None:
        """Who had the turn so far has done."""
        self.fails(None)
        function = None if callback is None else function_of(callback, self.event)
        if function is not None and not does_nothing(function):
            self.now = begin_hook(callback, self.event, function)

    def fails(self, error: BaseException | None) -> None:
        now, self.now = self.now, None
        if now is not None:
            now.ends(error)

    def close(self) -> None:
        self.fails(None)
        if self.own is not None and self.handler.callbacks is self:
            self.own[:] = super().copy()
            self.handler.callbacks = self.own
