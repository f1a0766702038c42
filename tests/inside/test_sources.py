"""What data libraries bring is counted once, by line, and costs the user's objects nothing of what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run
from tiny_texts import DOCUMENTS, HUGGING

pytestmark = pytest.mark.scenario

Recorded = Callable[..., Run]


def test_rows_row_groups_and_blank_texts_are_counted(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
file = pq.ParquetFile(PATH)
for group in range(file.num_row_groups):
    file.read_row_group(group)
"""
    ).succeeded()
    opening, reading = run.main.process().sources
    assert (opening.name, opening.files, opening.items) == ("pyarrow.parquet.ParquetFile", 1, 0)
    assert (reading.kind, reading.items, reading.groups, reading.calls.count) == ("rows", 100, 5, 5)
    # of every four texts one is not blank
    assert reading.looked == 100
    assert reading.blank == 75
    (file,) = run.main.process().data_files
    assert (file.groups, file.rows, file.opened) == (5, 100, 1)
    assert file.size is not None
    assert file.path.endswith(".parquet")


def test_every_way_to_read_a_file_brings_its_rows(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
file = pq.ParquetFile(PATH)
rows = sum(batch.num_rows for batch in file.iter_batches(batch_size=30))
rows += file.read().num_rows
rows += file.read_row_groups([0, 1]).num_rows
rows += pq.read_table(PATH).num_rows
print(rows)
"""
    ).succeeded()
    assert run.out == "340\n"
    found = run.main.process().sources[1:]
    assert [one.items for one in found] == [100, 100, 40, 100]
    assert [one.groups for one in found] == [5, 5, 2, 0]


def test_a_file_that_is_opened_again_and_again_is_no_progress(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
import sys
process = sys.modules["_unstuck_inside.core.process"].process
def board():
    words = process.recorder
    return bytes(words.bytes[words._board : words._board + 704 * 16])
def again(times):
    for number in range(times):
        pq.ParquetFile(PATH)
again(30)
before = board()
again(2000)
print(before == board())
"""
    ).succeeded()
    assert run.out == "True\n"
    (opening,) = run.main.process().sources
    assert opening.files == 2030
    assert opening.again == 1000
    assert run.main.process().data_files[0].opened == 1000


def test_blank_rows_that_are_read_again_are_no_progress(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
pq.write_table(pa.table({"text": ["", None, " "] * 5}), PATH)
for number in range(12):
    pq.read_table(PATH)
"""
    ).succeeded()
    (reading,) = run.main.process().sources
    assert reading.again == 10
    assert reading.blank == reading.looked


def test_row_groups_without_a_row_that_are_read_again_are_no_progress(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
pq.write_table(pa.table({"text": pa.array([], pa.string())}), PATH)
for number in range(12):
    pq.read_table(PATH)
"""
    ).succeeded()
    (reading,) = run.main.process().sources
    assert (reading.items, reading.again) == (0, 10)


def test_documents_and_tokens_are_counted(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
for number in range(5):
    TOKENIZER.encode("good morning")
TOKENIZER.encode_batch(["good morning"] * 4)
TOKENIZER.encode_batch_fast(["good"] * 3)
ENCODING.encode("abc")
ENCODING.encode_ordinary_batch(["ab", "abcd"], num_threads=3)
"""
    ).succeeded()
    found = {one.name: (one.items, one.made, one.threads) for one in run.main.process().sources}
    assert found == {
        "tokenizers.encode": (5, 10, None),
        "tokenizers.encode_batch": (4, 8, None),
        "tokenizers.encode_batch_fast": (3, 3, None),
        "tiktoken.encode": (1, 3, None),
        # what its threads call is part of it
        "tiktoken.encode_ordinary_batch": (2, 6, 3),
    }


def test_the_threads_of_tokenizers_are_known_where_they_are_told(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
import os
os.environ["TOKENIZERS_PARALLELISM"] = "false"
TOKENIZER.encode_batch(["good"] * 4)
"""
    ).succeeded()
    assert run.main.process().sources[0].threads == 1


def test_a_tokenizer_of_transformers_counts_once(recorded: Recorded) -> None:
    run = recorded(
        HUGGING
        + """
TOKENIZER(["good morning", "good"])
TOKENIZER("good morning")
TOKENIZER.encode("good")
print(TOKENIZER(["good morning"], return_tensors="pt")["input_ids"].shape)
"""
    ).succeeded()
    assert run.out == "torch.Size([1, 2])\n"
    found = run.main.process().sources
    assert {one.name for one in found} == {"transformers"}
    assert sum(one.items for one in found) == 5
    assert sum(one.made for one in found) == 8


def test_the_classes_stay_what_they_are(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
import copy, inspect, pickle
import tokenizers, unstuck
again = pickle.loads(pickle.dumps(TOKENIZER))
assert type(again) is Tokenizer is tokenizers.Tokenizer
assert again.encode("good morning").ids == [0, 1]
assert list(inspect.signature(Tokenizer.encode_batch).parameters)[:2] == ["self", "input"]
assert copy.deepcopy(TOKENIZER).encode_batch(["good"])[0].ids == [0]
file = pq.ParquetFile(PATH)
assert type(file) is pq.ParquetFile and "unstuck" not in str(vars(file))
assert next(iter(file.iter_batches())).num_rows == 100
try:
    TOKENIZER.encode(3)
except TypeError as error:
    assert unstuck.__path__[0] not in error.__traceback__.tb_frame.f_code.co_filename
    print("raised as ever")
"""
    ).succeeded()
    assert run.out == "raised as ever\n"
    assert run.main.process().adapters_failed == []


def test_a_map_says_how_far_it_is(recorded: Recorded) -> None:
    run = recorded("""
        import os, warnings
        warnings.simplefilter("ignore")
        os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=__file__ + ".home")
        import torch, datasets
        datasets.disable_progress_bars()
        made = datasets.Dataset.from_dict({"text": ["a", "b"] * 20})
        print(len(made.map(lambda one: {"size": len(one["text"])})))
    """).succeeded()
    assert run.out == "40\n"
    (mapping,) = run.main.process().sources
    assert (mapping.kind, mapping.name, mapping.items) == ("map", "datasets.map", 40)


def test_workers_count_for_themselves(recorded: Recorded) -> None:
    run = recorded(
        DOCUMENTS
        + """
from torch.utils.data import DataLoader, IterableDataset
class Texts(IterableDataset):
    def __iter__(self):
        for batch in pq.ParquetFile(PATH).iter_batches(batch_size=10):
            yield len(TOKENIZER.encode_batch([text or "" for text in batch.column("text").to_pylist()]))
for batch in DataLoader(Texts(), batch_size=2, num_workers=2):
    pass
"""
    ).succeeded()
    workers = [one.process() for one in run.facts if one.process().role == "worker"]
    assert len(workers) == 2
    for one in workers:
        assert {source.name: source.items for source in one.sources} == {
            "pyarrow.parquet.ParquetFile": 0,
            "pyarrow.parquet": 100,
            "tokenizers.encode_batch": 100,
        }


def test_short_calls_at_one_line_are_all_counted(recorded: Recorded) -> None:
    run = recorded("""
        import torch
        from tokenizers import Tokenizer, models, pre_tokenizers
        tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        for _ in range(3000):
            tokenizer.encode("a b a")
        tokenizer.encode("a")
    """).succeeded()
    many, one = run.main.process().sources
    assert (many.items, many.made, many.calls.count) == (3000, 9000, 3000)
    assert (one.items, one.made, one.calls.count) == (1, 1, 1)
