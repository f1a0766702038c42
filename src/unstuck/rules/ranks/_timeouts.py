"""How the timeout of the process group is raised, in the words of what makes the group."""

from __future__ import annotations

from ...evidence.process import Process
from ...wording.settings import in_words_of

ACCELERATE = ("main_process_first", "local_main_process_first", "wait_for_everyone", "gather_for_metrics")


def raised(process: Process, *, minutes: int) -> str:
    """A line of the training's source."""
    amount = f"hours={minutes // 60}" if minutes % 60 == 0 else f"minutes={minutes}"
    longer = f"timeout=datetime.timedelta({amount})"
    if process.prepared or any(one.name in ACCELERATE for one in process.spans):
        plain = f"Accelerator(kwargs_handlers=[accelerate.InitProcessGroupKwargs({longer})])"
    else:
        plain = f"torch.distributed.init_process_group(..., {longer})"
    return in_words_of(
        process,
        plain,
        lightning=f"Trainer(strategy=DDPStrategy({longer}))",
        transformers=f"TrainingArguments(ddp_timeout={minutes * 60})",
    )
