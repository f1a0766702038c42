"""Every adapter brings the events it owes, can be undone, and leaves what it wraps looking as it was."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from running import INSIDE, Run, Zygote
from tiny_libraries import (
    ACCELERATE,
    BUCKETED,
    DISTRIBUTED,
    HTTP,
    MLFLOW,
    RUNS,
    SAMPLES,
    SAVING,
    STATEFUL,
    TENSORBOARD,
    TINY,
    WANDB,
)
from tiny_streams import APART, BEFORE, STREAMS
from tiny_streams import RUNS as STREAM_RUNS
from tiny_texts import IMPORTS, TEXTS
from tiny_texts import RUNS as TEXT_RUNS
from tiny_trainers import IMPORTS as TRAINER_IMPORTS
from tiny_trainers import RUNS as TRAINER_RUNS
from tiny_trainers import TRAINERS

from unstuck.inside.format import Kind

Recorded = Callable[..., Run]
KINDS = {name: value for name, value in vars(Kind).items() if isinstance(value, int)}
ADAPTERS = sorted(path.stem for path in (INSIDE / "adapters").glob("*.py") if path.stem != "__init__")
HEAVY = ("lightning", "litdata", "mosaicml", "transformers_trainer")  # libraries that take many seconds to import


class Lazily(dict[str, Run]):
    """Each program is run once, when it is first asked for."""

    def __init__(self, texts: dict[str, str], run: Callable[[str, str], Run]) -> None:
        self.texts, self.run = texts, run

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __missing__(self, name: str) -> Run:
        self[name] = self.run(name, self.texts[name]).succeeded()
        return self[name]


def needs_apart(adapter: str) -> None:
    if adapter.startswith(("litdata", "mosaicml")) and not APART.is_dir():
        pytest.skip("tests/apart.txt is not installed: make .venv/apart")


def owed(adapter: str) -> set[str]:
    """The kinds an adapter's file declares."""
    for node in ast.parse((INSIDE / "adapters" / f"{adapter}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "OWES":
            return {one.attr for one in ast.walk(node.value) if isinstance(one, ast.Attribute) and one.attr in KINDS}
    raise AssertionError(f"{adapter} declares no OWES")


@pytest.fixture(scope="module")
def tiny_runs(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    texts = {"torch": TINY, "torchdata": STATEFUL, "tensorboard": TENSORBOARD, "wandb": WANDB}
    texts |= {"samples": SAMPLES, "distributed": DISTRIBUTED, "accelerate": ACCELERATE}
    texts |= {"mlflow": MLFLOW, "http": HTTP, "bucketed": BUCKETED}
    texts |= TEXTS | SAVING | TRAINERS | STREAMS
    return Lazily(texts, lambda name, text: zygote.run(text, tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize(
    "adapter", [pytest.param(one, marks=[pytest.mark.scenario] * one.startswith(HEAVY)) for one in ADAPTERS]
)
def test_every_event_that_an_adapter_owes_arrives(tiny_runs: dict[str, Run], adapter: str) -> None:
    # given a tiny real run
    runs = RUNS | TEXT_RUNS | TRAINER_RUNS | STREAM_RUNS
    needs_apart(adapter)
    run = tiny_runs[runs.get(adapter, adapter.partition("_")[0] if adapter.partition("_")[0] in tiny_runs else "torch")]
    # then each kind is in some process's ring or totals
    arrived = {kind for one in run.facts for kind, _ in one.totals if sum(one.totals[kind, _][2:])}
    arrived |= {record[1] for one in run.facts for record in one.recording.ring() + one.recording.notes()}
    assert owed(adapter)
    assert {name for name in owed(adapter) if KINDS[name] not in arrived} == set()


UNDONE = """
import importlib, sys
import numpy, PIL.Image, PIL.ImageFile
import torch.multiprocessing.spawn, torch.utils.data._utils.worker, multiprocessing.popen_fork
import multiprocessing.popen_forkserver, multiprocessing.queues, torch.utils.file_baton
import torchdata.stateful_dataloader, torch.utils.tensorboard, wandb, torch.distributed.checkpoint
if ADAPTER.startswith("accelerate"):
    import accelerate
if ADAPTER.startswith("mlflow"):
    import mlflow
if ADAPTER == "transformers_trainer":
    import transformers.trainer
if ADAPTER == "torch_compile":
    import torch._dynamo.convert_frame
if ADAPTER.startswith("safetensors"):
    import safetensors.torch

inside = "_unstuck_inside"
adapter = importlib.import_module(f"{inside}.adapters.{ADAPTER}")
guard = sys.modules[f"{inside}.core.guard"]

places = []
real = guard.replace
def spy(owner, name, make):
    places.append((owner, name, vars(owner).get(name)))
    return real(owner, name, make)
for module in [adapter, guard, sys.modules.get(f"{inside}.adapters.torch_dataloader")]:
    if hasattr(module, "replace"):
        module.replace = spy

hooks = sys.modules["torch.optim.optimizer"]
def state():
    return [vars(owner).get(name) for owner, name, _ in places]
def hooked():
    return [list(hooks._global_optimizer_pre_hooks), list(hooks._global_optimizer_post_hooks)]

before = hooked()
modules = [sys.modules[name] for name in adapter.MODULES if name in sys.modules]
undos = [adapter.install(module, guard.Guard(ADAPTER, print)) for module in modules]
assert undos
changed = [here is not there for here, (_, _, there) in zip(state(), places)]
print(len(places), all(changed), hooked() != before)
for undo in undos:
    undo()
print([here is there for here, (_, _, there) in zip(state(), places)].count(False), hooked() == before)
"""


@pytest.mark.scenario
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_undone_adapter_leaves_the_very_objects_it_found(recorded: Recorded, adapter: str) -> None:
    needs_apart(adapter)
    library = (IMPORTS | TRAINER_IMPORTS).get(adapter.partition("_")[0], "torch")
    before = BEFORE.get(adapter, BEFORE.get(adapter.partition("_")[0], f"import {library}\n"))
    run = recorded(f"ADAPTER = {adapter!r}\n{before}{UNDONE}").succeeded()
    first, second = run.out.splitlines()
    # given something that was replaced, or hooked; then all of it is as before
    replaced, changed, hooked = first.split()
    assert changed == "True"
    assert int(replaced) > 0 or hooked == "True" or adapter == "torch_worker"
    assert second == "0 True"


def test_what_somebody_else_wrapped_since_is_left_alone(recorded: Recorded) -> None:
    run = recorded("""
        import sys
        guard = sys.modules["_unstuck_inside.core.guard"]

        class Library:
            def call(self):
                return 1

        undo = guard.replace(Library, "call", lambda original: lambda self: original(self) + 1)
        ours = Library.call
        Library.call = lambda self: ours(self) * 10
        undo()
        print(Library().call())
    """).succeeded()
    assert run.out == "20\n"


def test_types_signatures_and_pickles_are_as_without_us(recorded: Recorded) -> None:
    run = recorded("""
        import copy, inspect, pickle
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data import dataloader as module

        loader = DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2)
        assert type(loader) is DataLoader
        assert type(iter(loader)) is module._SingleProcessDataLoaderIter
        assert isinstance(iter(loader), module._BaseDataLoaderIter)
        assert list(inspect.signature(DataLoader.__init__).parameters)[:3] == ["self", "dataset", "batch_size"]
        assert "num_workers" in inspect.signature(DataLoader).parameters
        own, shown = DataLoader.__init__.__wrapped__, inspect.getfullargspec(DataLoader.__init__)
        assert shown == inspect.getfullargspec(own) and shown.args[:3] == ["self", "dataset", "batch_size"]
        assert (DataLoader.__init__.__defaults__, DataLoader.__init__.__kwdefaults__) == (
            own.__defaults__, own.__kwdefaults__
        )
        assert inspect.signature(DataLoader.__init__) == inspect.signature(own)
        assert inspect.getfullargspec(torch.save) == inspect.getfullargspec(torch.save.__wrapped__)
        assert DataLoader.__init__.__qualname__ == "DataLoader.__init__"
        assert DataLoader.__iter__.__module__ == "torch.utils.data.dataloader"
        list(loader)
        again = pickle.loads(pickle.dumps(loader))
        assert [batch[0].tolist() for batch in again] == [[0, 1], [2, 3]]
        assert pickle.loads(pickle.dumps(module._utils.worker._worker_loop)) is module._utils.worker._worker_loop
        assert [batch[0].tolist() for batch in copy.copy(loader)] == [[0, 1], [2, 3]]
        assert "_unstuck" not in vars(loader) and "_unstuck" not in vars(loader.dataset)
        assert not [name for name in vars(iter(loader)) if "unstuck" in name.replace("_unstuck", "", 1)]
        print("as ever")
    """).succeeded()
    assert run.out == "as ever\n"


def test_a_recorded_loader_keeps_no_dataset_alive(recorded: Recorded) -> None:
    run = recorded("""
        import gc, weakref
        from torch.utils.data import DataLoader

        class Numbers:
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return index

        gc.disable()
        dataset = Numbers()
        alive = weakref.ref(dataset)
        loader = DataLoader(dataset, batch_size=2)
        for batch in loader:
            pass
        del dataset, loader, batch
        print(alive())
    """).succeeded()
    assert run.out == "None\n"


def test_properties_of_the_users_are_not_asked(recorded: Recorded) -> None:
    # given a loader and a dataset whose attributes must not be touched
    run = recorded("""
        from torch.utils.data import DataLoader

        class Touchy(DataLoader):
            @property
            def context_of_mine(self):
                raise RuntimeError("touched")
            def __getattr__(self, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                raise RuntimeError(f"touched: {name}")

        class Dataset:
            __slots__ = ()
            def __getattr__(self, name):
                if name == "__getitems__":  # torch asks for this one itself
                    raise AttributeError(name)
                raise RuntimeError(f"touched: {name}")
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return index

        print([batch.tolist() for batch in Touchy(Dataset(), batch_size=2)])
    """).succeeded()
    assert run.out == "[[0, 1], [2, 3]]\n"
    assert run.main.process().adapters_failed == []
    assert run.main.process().loaders[0].batches == 2
