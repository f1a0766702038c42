"""What torch saves, and what safetensors saves of it: no fault, and no npz."""

from __future__ import annotations

import io

import pytest
import torch
from harm import kinds, seen
from safetensors.torch import save

pytestmark = pytest.mark.scenario

NAMES = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16"),
    *("float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64"),
)


@pytest.mark.parametrize("checksums", [True, False])
def test_what_torch_saves_is_healthy_until_it_is_cut(checksums, tmp_path):
    out = io.BytesIO()
    torch.serialization.set_crc32_options(checksums)
    try:
        torch.save({"weight": torch.arange(3000.0), "step": 5}, out)
    finally:
        torch.serialization.set_crc32_options(True)

    file = seen(tmp_path, "model.pt", out.getvalue())

    assert (file.format, file.faults) == ("zip", [])
    assert kinds(tmp_path, "model.pt", out.getvalue()[:-300]) == ["cut"]


@pytest.mark.parametrize("name", NAMES)
def test_every_type_of_tensor_is_known(name, tmp_path):
    data = save({"a": torch.zeros(6, dtype=getattr(torch, name))})

    assert kinds(tmp_path, "a.safetensors", data) == []
    assert kinds(tmp_path, "a.safetensors", data[:-1]) == ["cut"]
