"""Weights & Biases' runs: how long beginning and ending one takes, in which mode it is, and what else makes it wait."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, replace_everywhere, together
from ..format import Kind
from ..side_work.calls import timed
from ..side_work.loggers import plain, set_up

MODULES = (
    "wandb.sdk.wandb_init",
    "wandb.sdk.wandb_run",
    "wandb.sdk.artifacts.artifact",
    "wandb.sdk.lib.service.service_connection",
    "wandb.integration.torch.wandb_torch",
)
OWES = (Kind.CALL, Kind.LOGGER)
# By class: what it is called, and what is called so. An exit without `finish` ends in the last one.
RUN = {
    "finish": "wandb.finish", "_finish": "wandb.finish", "log_artifact": "wandb.log_artifact",
    "use_artifact": "wandb.use_artifact", "log_model": "wandb.log_model", "log_code": "wandb.log_code",
    "save": "wandb.save", "watch": "wandb.watch",
}  # fmt: skip
ARTIFACT = {name: f"wandb.Artifact.{name}" for name in ("wait", "add_dir", "download")}
HISTORY = {"log_tensor_stats": "wandb.watch"}
SERVICE = {"teardown": "wandb.finish"}
SETTINGS = ("init_timeout", "finish_timeout", "x_stats_sampling_interval")
MODES = {"dryrun": "offline", "run": "online"}


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__ == "wandb.sdk.wandb_init":
        return _init(module, guard)
    classes = {"Run": RUN, "Artifact": ARTIFACT, "ServiceConnection": SERVICE, "TorchHistory": HISTORY}
    return together(
        *(
            replace(vars(module)[owner], name, functools.partial(_timed, told, guard))
            for owner, names in classes.items()
            if owner in vars(module) and vars(module)[owner].__module__ == module.__name__
            for name, told in names.items()
        )
    )


def _timed(name: str, guard: Guard, original: Any) -> Any:
    return timed(original, "logger", name, guard)


def _init(module: ModuleType, guard: Guard) -> Undo:
    inner = vars(module).get("_WandbInit")
    undos = [replace_everywhere(module, "init", functools.partial(_timed, "wandb.init", guard))]
    if inner is not None:  # its methods are handed the settings as they came out, before anything is waited for
        undos += [replace(inner, name, lambda one: _noting(one, guard)) for name in ("init", "make_disabled_run")]
    return together(*undos)


def _noting(original: Any, guard: Guard) -> Any:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard.quietly(_note, original.__name__, self, args, kwargs)
        return original(self, *args, **kwargs)

    return init


def _note(called: str, self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = (*args, *kwargs.values(), getattr(self, "settings", None))  # an attribute before wandb 0.19
    settings = next((one for one in given if hasattr(one, "base_url")), None)
    mode = "disabled" if called == "make_disabled_run" else str(getattr(settings, "mode", "") or "online")
    known: dict[str, Any] = {name: getattr(settings, name, None) for name in SETTINGS}
    facts = {
        "mode": MODES.get(mode, mode),
        "folder": "" if mode == "disabled" else str(getattr(settings, "sync_dir", "") or ""),
        "address": plain(getattr(settings, "base_url", "")) if mode not in ("disabled", "offline", "dryrun") else "",
        "settings": {name: float(value) for name, value in known.items() if type(value) in (int, float)},
    }
    set_up("wandb", facts, sys._getframe(1))
