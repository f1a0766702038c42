"""What is recorded of models and checkpoints that ranks have together."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from running import LOOP, Run

pytestmark = pytest.mark.scenario  # process groups are made

Recorded = Callable[..., Run]


def test_a_wrapped_model_names_its_parameters_as_torch_numbers_them(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
model[0].bias.requires_grad_(False)
model.shared = model[2]
dist.init_process_group("gloo", init_method=f"file://{__file__}.meet", rank=0, world_size=1)
wrapped = DistributedDataParallel(model, find_unused_parameters=True)
parameters, _ = wrapped._build_params_for_reducer()
theirs = wrapped._build_debug_param_to_name_mapping(parameters)
print(json.dumps([theirs[number].lstrip(".") for number in sorted(theirs)]))
dist.destroy_process_group()
"""
    ).succeeded()
    (wrapped,) = run.main.process().wrapped
    assert wrapped.kind == "DistributedDataParallel"
    assert wrapped.where is not None
    assert wrapped.where.file.endswith("train.py")
    assert (wrapped.find_unused_parameters, wrapped.static_graph, wrapped.parameters) == (True, False, 5)
    assert wrapped.names == json.loads(run.out)


@pytest.mark.scenario
def test_join_and_checkpoints_of_all_ranks_are_spans(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
import warnings
warnings.simplefilter("ignore")
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.nn.parallel import DistributedDataParallel
checkpoint.save({"a": torch.ones(1)}, checkpoint_id=__file__ + ".alone")
dist.init_process_group("gloo", init_method=f"file://{__file__}.meet", rank=0, world_size=1)
wrapped = DistributedDataParallel(model)
with wrapped.join():
    wrapped(torch.ones(2, 1))
try:
    with wrapped.join():
        raise ValueError("on purpose")
except ValueError:
    pass
checkpoint.save(model.state_dict(), checkpoint_id=__file__ + ".saved")
checkpoint.async_save(model.state_dict(), checkpoint_id=__file__ + ".later").result()
checkpoint.load(model.state_dict(), checkpoint_id=__file__ + ".saved")
dist.destroy_process_group()
"""
    ).succeeded()
    process = run.main.process()
    assert process.adapters_failed == []
    assert [(one.name, one.failed) for one in process.spans] == [
        ("DistributedDataParallel", False), ("Join", False), ("Join", True), ("checkpoint save", False),
        ("checkpoint load", False),
    ]  # fmt: skip
    assert {one.where.file.rpartition("/")[2] for one in process.spans if one.where} == {"train.py"}
    # each checkpoint once, not each of its tensors
    assert [one.path.rpartition(".")[2] for one in process.saved] == ["alone", "saved", "later"]
