"""Weights & Biases' images, tables and the like: they are encoded when they are made, not when they are logged.

A table is filled row by row: thousands of calls that are counted together.
"""

from __future__ import annotations

from types import ModuleType

from ..core.guard import Guard, Undo, replace, together
from ..format import Kind
from ..side_work.calls import counted_in_bursts, timed

MODULES = (
    "wandb.sdk.data_types.image",
    "wandb.sdk.data_types.video",
    "wandb.sdk.data_types.audio",
    "wandb.sdk.data_types.table",
    "wandb.sdk.data_types.histogram",
    "wandb.sdk.data_types.object_3d",
    "wandb.sdk.data_types.html",
    "wandb.sdk.data_types.plotly",
    "wandb.sdk.data_types.molecule",
)
OWES = (Kind.CALL,)
CLASSES = ("Image", "Video", "Audio", "Table", "Histogram", "Object3D", "Html", "Plotly", "Molecule")


def install(module: ModuleType, guard: Guard) -> Undo:
    own = [one for name in CLASSES if (one := vars(module).get(name)) and one.__module__ == module.__name__]
    return together(*(_made(one, guard) for one in own))


def _made(media: type, guard: Guard) -> Undo:
    name = f"wandb.{media.__name__}"
    made = replace(media, "__init__", lambda original: timed(original, "logger", name, guard))
    return together(made, *_filled(media, guard)) if media.__name__ == "Table" else made


def _filled(table: type, guard: Guard) -> list[Undo]:
    row, column = "wandb.Table.add_data", "wandb.Table.add_column"
    return [
        replace(table, "add_data", lambda original: counted_in_bursts(original, "logger", row, guard)),
        replace(table, "add_column", lambda original: timed(original, "logger", column, guard)),
    ]
