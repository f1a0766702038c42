"""What lies open in transformers' Trainer: its arguments, its data, and how many batches were announced."""

from __future__ import annotations

from typing import Any

from .holdings import attributes_of
from .loaders import entry_of
from .preparing import base_of
from .trainers import Run, callbacks_of, settings_of, version_of

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
