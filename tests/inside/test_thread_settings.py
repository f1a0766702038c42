"""Two batches of a rank that torchrun left one thread to are looked at closely, and nothing of that stays."""

from __future__ import annotations

import json
import os

import pytest

from unstuck.inside.format import Kind
from unstuck.inside.loading import thread_settings


class Notes:
    """As much of a recorder as is needed."""

    def __init__(self):
        self.told, self.texts = [], [""]

    def intern(self, text):
        self.texts.append(text)
        return len(self.texts) - 1

    def note(self, kind, key, _start, _duration, text):
        self.told.append((kind, key, json.loads(self.texts[text])))


class Fetcher:
    def __init__(self, work):
        self.work = work

    def fetch(self, index):
        return self.work(index)


class Iterator:
    def __init__(self, work):
        self._dataset_fetcher = Fetcher(work)


@pytest.fixture
def one_thread(monkeypatch):
    """In a rank of torchrun, whose own environment is not asked here."""
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    monkeypatch.setitem(os.environ, "TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setattr(thread_settings, "_launcher_has", lambda _: False)
    monkeypatch.setattr(thread_settings, "told", thread_settings.Told())


def looked_at(work, batches=4):
    notes, iterator = Notes(), Iterator(work)
    thread_settings.pass_begins(notes)
    thread_settings.pass_begun(notes, 7, iterator)
    got = [iterator._dataset_fetcher.fetch(number) for number in range(batches)]
    return notes.told, got, iterator._dataset_fetcher


def test_operations_that_threads_would_share_are_timed_operators_too(one_thread):
    import torch

    large = torch.ones(500, 500)

    told, got, fetcher = looked_at(lambda number: ((large @ large) * number)[0, 0].item())

    assert got == [0.0, 500.0, 1000.0, 1500.0]
    assert told[0][2]["by_launcher"] == ["OMP_NUM_THREADS"]
    (kind, key, facts) = told[1]
    assert (kind, key, facts["batches"]) == (Kind.SHARED, 7, 2)
    assert 0 < facts["shared"] <= facts["seconds"]
    assert "matmul" in facts["names"]
    assert "fetch" not in vars(fetcher)


def test_plain_python_and_drawing_numbers_are_not_counted(one_thread):
    import torch

    def work(_):
        return sum(range(200_000)) + torch.rand(300_000)[0].item()

    (_, (_, _, facts)), _, _ = looked_at(work)

    assert facts["shared"] == 0


def test_an_exception_of_the_dataset_comes_through_and_no_mode_stays(one_thread):
    import torch
    from torch.overrides import _len_torch_function_stack

    def work(number):
        if number == 1:
            raise KeyError("sample 1")
        return torch.ones(3)

    with pytest.raises(KeyError, match="sample 1"):
        looked_at(work)
    assert _len_torch_function_stack() == 0


def test_a_users_own_setting_is_left_alone(one_thread, monkeypatch):
    monkeypatch.setattr(thread_settings, "_launcher_has", lambda _: True)

    told, _, fetcher = looked_at(lambda number: number)

    assert [facts["by_launcher"] for _, _, facts in told] == [[]]
    assert "fetch" not in vars(fetcher)


def test_a_launcher_is_asked_for_its_own_environment():
    assert thread_settings._launcher_has("PATH")
    assert not thread_settings._launcher_has("NO_SUCH_VARIABLE")
