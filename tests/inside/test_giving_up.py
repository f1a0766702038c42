"""A failure of our own: the adapter undoes itself, says so in the recording, and the training goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run

Recorded = Callable[..., Run]

TRAINING = """
import sys
import torch, unstuck
from torch.utils.data import DataLoader
from torch.utils.data import dataloader

def break_it(module, owner, name):
    module = sys.modules["_unstuck_inside." + module]
    failing = compile("def broken(*a, **k): raise ZeroDivisionError('a bug of ours')", module.__file__, "exec")
    space = {}
    exec(failing, space)
    setattr(getattr(module, owner) if owner else module, name, space["broken"])

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=1.0)

def train(loader):
    total = 0
    for batch in loader:
        weight.grad = torch.ones(1)
        optimizer.step()
        total += batch.sum().item()
    return total

loader = DataLoader(torch.arange(12.0), batch_size=2)
expected = train(loader)
"""


@pytest.mark.parametrize(
    ("module", "owner", "name", "adapter"),
    [
        ("loading.loaders", "Entry", "settle", "torch_dataloader"),
        ("loading.iterators", "Cursor", "arrives", "torch_dataloader"),
        ("loading.iterators", "Cursor", "ends", "torch_dataloader"),
        ("loading.loaders", "Entry", "begin_pass", "torch_dataloader"),
        ("loading.fetches", "", "clock", "torch_fetch"),
        ("loading.fetches", "Stream", "ends", "torch_fetch"),
        ("adapters.torch_optimizer", "", "clock", "torch_optimizer"),
    ],
)
def test_an_adapter_that_fails_undoes_itself_and_the_training_goes_on(
    recorded: Recorded, module: str, owner: str, name: str, adapter: str
) -> None:
    # given a bug of ours
    bug = f"break_it({module!r}, {owner!r}, {name!r})"
    run = recorded(f"{TRAINING}\n{bug}\nprint(train(loader) == expected, weight.item())")
    # then the results are right, nothing is printed, and the recording names the adapter
    assert run.succeeded().out == "True -12.0\n"
    (told,) = run.main.process().adapters_failed
    assert told == f"{adapter}: ZeroDivisionError: a bug of ours"


def test_an_adapter_that_failed_is_gone(recorded: Recorded) -> None:
    run = recorded(
        TRAINING
        + """
wrapped = dataloader._BaseDataLoaderIter.__next__
break_it("loading.iterators", "Cursor", "arrives")
train(loader)
now = dataloader._BaseDataLoaderIter.__next__
print(wrapped is now, unstuck.__path__[0] in now.__code__.co_filename)
"""
    )
    assert run.succeeded().out == "False False\n"


@pytest.mark.parametrize("name", ["event", "board", "total", "intern", "cost"])
def test_even_a_recorder_that_cannot_write_is_the_trainings_least_worry(recorded: Recorded, name: str) -> None:
    # given a failure that also befalls the note of the failure
    run = recorded(
        TRAINING
        + f"""
import unstuck
break_it("core.recorder", "Recorder", {name!r})
with unstuck.stage("after", item="x"):
    unstuck.progress("rows", 1)
print(train(loader) == expected, train(DataLoader(torch.arange(12.0), batch_size=2, num_workers=1)) == expected)
"""
    )
    assert run.succeeded().out == "True True\n"


def test_a_library_that_lacks_what_an_adapter_looks_for_costs_only_that_adapter(recorded: Recorded) -> None:
    # given a torch of another version
    run = recorded("""
        import sys, types
        start = sys.modules["_unstuck_inside.start"]
        start._Installer("torch_dataloader")(types.ModuleType("torch.utils.data.dataloader"))
        print("goes on")
    """).succeeded()
    assert run.out == "goes on\n"
    (told,) = run.main.process().adapters_failed
    assert told.startswith("torch_dataloader: AttributeError")


def test_a_module_that_was_only_asked_for_is_still_hooked_when_it_is_imported(recorded: Recorded) -> None:
    # given code that looks whether a library is there, and an import that fails the first time
    run = recorded("""
        import importlib.util, os, sys
        finder = sys.modules["_unstuck_inside.start"].finder
        folder = os.path.dirname(__file__)
        sys.path.insert(0, folder)
        open(folder + "/library.py", "w").write("import os\\nif 'READY' not in os.environ: raise OSError('not yet')")
        met = []
        finder.when_imported("library", met.append)
        assert importlib.util.find_spec("library") is not None
        try:
            import library
        except OSError:
            os.environ["READY"] = "1"
        assert not met
        import library
        assert met == [library] and type(library.__loader__).__name__ == "SourceFileLoader"
        assert type(library.__spec__.loader).__name__ == "SourceFileLoader"
        print("met")
    """).succeeded()
    assert run.out == "met\n"


def test_a_module_in_whose_middle_we_were_started_is_hooked_when_it_is_through(recorded: Recorded) -> None:
    # given a library that imports torch in its middle, as webdataset does, where nothing has imported torch before
    run = recorded("""
        import os, sys
        finder = sys.modules["_unstuck_inside.start"].finder
        folder = os.path.dirname(__file__)
        sys.path.insert(0, folder)
        open(folder + "/library.py", "w").write("import middle\\nhere = 1")
        open(folder + "/middle.py", "w").write("import sys; sys.when()")
        open(folder + "/later.py", "w").write("")
        met = []
        sys.when = lambda: finder.when_imported("library", lambda module: met.append(module.here))
        import library
        assert not met
        import later
        assert met == [1]
        print("met")
    """).succeeded()
    assert run.out == "met\n"
