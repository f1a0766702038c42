"""What Lightning logs, every so many steps and after each validation: those values that are named like a loss.

Where a logger of a library is used that has its own adapter, the value is told there.
"""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace
from ..core.objects import attributes_of
from ..format import Kind
from ..side_work.loggers import told_by_logger

MODULES = (
    "lightning.pytorch.trainer.connectors.logger_connector.logger_connector",
    "pytorch_lightning.trainer.connectors.logger_connector.logger_connector",
)
OWES = (Kind.METRIC,)
TELL_THEMSELVES = ("TensorBoard", "Wandb", "MLFlow")


def install(module: ModuleType, guard: Guard) -> Undo:
    connector = vars(module).get("_LoggerConnector") or module.LoggerConnector
    return replace(connector, "log_metrics", lambda original: around(original, guard, _tell))


def _tell(_frame: FrameType, args: Any, kwargs: Any) -> None:
    connector, metrics = args[0], args[1] if len(args) > 1 else kwargs.get("metrics")
    trainer = getattr(connector, "trainer", None)
    loggers = attributes_of(trainer).get("_loggers") or ()
    if type(metrics) is not dict or any(type(one).__name__.startswith(TELL_THEMSELVES) for one in loggers):
        return
    loop = getattr(getattr(trainer, "fit_loop", None), "epoch_loop", None)
    step = attributes_of(loop).get("_batches_that_stepped")
    for name, value in metrics.items():
        told_by_logger(name, value, step)
