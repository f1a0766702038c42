"""MLflow's logging functions and its client's methods: what they take, and where they log to."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, replace_everywhere, together
from ..format import Kind
from ..side_work.calls import timed
from ..side_work.loggers import plain, set_up

MODULES = ("mlflow.tracking.fluent", "mlflow.tracking.client")
OWES = (Kind.CALL, Kind.LOGGER)
CALLS = (
    "start_run", "end_run", "log_metric", "log_metrics", "log_param", "log_params", "log_batch", "log_artifact",
    "log_artifacts", "log_image", "log_figure", "log_table", "log_text", "log_dict", "log_input", "set_tag", "set_tags",
    "create_run", "set_terminated", "flush_async_logging", "set_experiment", "create_experiment",
)  # fmt: skip
REMOTE = ("http", "databricks")


def install(module: ModuleType, guard: Guard) -> Undo:
    client = module.__name__.endswith("client")
    owner, put = (module.MlflowClient, replace) if client else (module, replace_everywhere)
    names = [name for name in CALLS if name in vars(owner)]
    return together(*(put(owner, name, functools.partial(_call, name, guard)) for name in names))


def _call(name: str, guard: Guard, original: Any) -> Any:
    inner = _start(original, guard) if name == "start_run" else original
    return timed(inner, "logger", f"mlflow.{name}", guard)


def _start(original: Any, guard: Guard) -> Any:
    @functools.wraps(original)
    def start_run(*args: Any, **kwargs: Any) -> Any:
        guard.quietly(_note)
        return original(*args, **kwargs)

    return start_run


def _note() -> None:
    service = sys.modules.get("mlflow.tracking._tracking_service.utils")
    if service is None:
        return
    uri = str(service.get_tracking_uri())
    remote = uri.startswith(REMOTE)
    known = {"address": plain(uri) or uri} if remote else {"folder": uri.partition("://")[2] or uri}
    set_up("mlflow", {"mode": "online" if remote else "offline", **known}, sys._getframe(1))
