"""Every name of the public API is there: they are imported at first use, so that a wrong home shows only then."""

from __future__ import annotations

import pytest

import unstuck


@pytest.mark.parametrize("name", unstuck.__all__)
def test_a_public_name_can_be_had(name: str) -> None:
    assert getattr(unstuck, name)
