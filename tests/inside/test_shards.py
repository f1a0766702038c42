"""What a process reads of a list of shards, and what becomes of errors on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from running import Run
from tiny_texts import GZIP

from unstuck.evidence.loader import Shards
from unstuck.evidence.process import Process

Recorded = Callable[..., Run]
pytestmark = pytest.mark.scenario  # real shards are written and read, each takes a second or more

BEGIN = """
import pickle, signal, sys, tarfile, time, traceback, warnings
import numpy, torch, webdataset as wds
from torch.utils.data import DataLoader, Dataset, IterableDataset
warnings.simplefilter("ignore")

def write(name, samples, cut=None):
    path = f"{__file__}.{name}.tar"
    with wds.TarWriter(path) as shard:
        for number in range(samples):
            shard.write({"__key__": f"{name}{number:02d}", "npy": numpy.zeros(300)})
    if cut is not None:
        with tarfile.open(path) as shard:
            member = shard.getmembers()[cut]
        with open(path, "r+b") as file:
            file.truncate(member.offset_data + 100)
    return path
"""


def only(run: Run) -> Shards:
    found = [one for process in run.succeeded().processes for one in process.shards]
    assert len(found) == 1
    return found[0]


def test_shards_samples_and_the_line_that_made_the_dataset_are_told(recorded: Recorded) -> None:
    # given three shards of which a worker has two
    run = recorded(
        BEGIN
        + """
urls = [write(name, 6) for name in "abc"]
words = wds.WebDataset(urls, shardshuffle=False)
for sample in DataLoader(words.shuffle(4).decode(), batch_size=None, num_workers=2):
    pass
"""
    ).succeeded()
    # then each process tells its own part
    workers = sorted((one for one in run.processes if one.role == "worker"), key=lambda one: one.worker or 0)
    assert [one.shards[0].mine for one in workers] == [2, 1]
    assert [one.shards[0].samples for one in workers] == [12, 6]
    assert {(one.shards[0].total, one.shards[0].buffer, one.shards[0].empty_check) for one in workers} == {(3, 4, True)}
    assert [one.shards[0].finished for one in workers] == [2, 1]
    where = workers[0].shards[0].where
    assert where is not None
    assert where.file.endswith(".py")


def test_a_shard_that_breaks_off_is_told_with_what_it_gave_and_what_others_give(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
urls = [write("a", 8), write("b", 8, cut=3), write("c", 8)]
assert len(list(DataLoader(wds.WebDataset(urls, shardshuffle=False, handler=wds.ignore_and_continue)))) == 19
"""
    )
    shards = only(run)
    assert (shards.opened, shards.finished, shards.usual) == (3, 2, 8)
    error = shards.errors[0]
    assert error.path.endswith(".b.tar")
    assert (error.type, error.stage, error.handler) == ("ReadError", "read", "ignore_and_continue")
    assert error.rest_lost
    assert error.goes_on
    assert error.gave in (2, 3)


def test_a_shard_whose_command_fails_counts_as_one_that_cannot_be_opened(recorded: Recorded) -> None:
    """And by its own name, not by that of the shard before."""
    run = recorded(
        BEGIN
        + """
urls = ["pipe:cat " + write("a", 4), "pipe:cat /nowhere/b.tar 2>/dev/null", "pipe:cat " + write("c", 4)]
assert len(list(wds.WebDataset(urls, shardshuffle=False, handler=wds.ignore_and_continue))) == 8
"""
    )
    (error,) = only(run).errors
    assert (error.path, error.stage, error.rest_lost) == ("pipe:cat /nowhere/b.tar 2>/dev/null", "open", False)


def test_a_handler_that_sleeps_a_key_and_a_shard_are_told_of_a_sample_that_fails(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
def patient(error):
    time.sleep(0.05)
    return True

def refuse(sample):
    if sample["__key__"] == "a03":
        raise ValueError("not this one")
    return sample

samples = wds.WebDataset([write("a", 6)], shardshuffle=False).map(refuse, handler=patient)
assert len(list(samples)) == 5
"""
    )
    error = only(run).errors[0]
    assert (error.key, error.stage, error.handler, error.message) == ("a03", "map", "patient", "not this one")
    assert error.path.endswith(".a.tar")
    assert error.slept >= 0.05
    assert not error.rest_lost


def test_the_users_pipeline_stays_as_it_is_and_his_traceback_free_of_us(recorded: Recorded) -> None:
    run = recorded(
        BEGIN
        + """
samples = wds.WebDataset([write("a", 4)], shardshuffle=False).map(int)
before = [stage.__dict__.get("kw") for stage in samples.pipeline]
try:
    list(samples)
except TypeError:
    print("inside/" in traceback.format_exc())
print([stage.__dict__.get("kw") for stage in samples.pipeline] == before)
print(len(pickle.loads(pickle.dumps(samples)).pipeline) == len(samples.pipeline))
"""
    ).succeeded()
    assert run.out.split() == ["False", "True", "True"]


def test_a_time_out_of_the_users_reaches_him_through_a_pipeline(recorded: Recorded) -> None:
    """Python itself drops some where a file is destroyed, recorded or not: it says so, or they have no trace."""
    run = recorded(
        BEGIN
        + """
class TooLate(Exception):
    pass

def late(_, frame):
    fired.append(TooLate())
    raise fired[0]

fired, arrived, lost, dropped = [], 0, [], []
sys.unraisablehook = dropped.append
signal.signal(signal.SIGALRM, late)
samples = wds.WebDataset([write("a", 40)], shardshuffle=False)
for attempt in range(120):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + attempt % 60 * 0.0001)
        while not fired:
            list(samples)
        lost += [] if dropped else fired
    except TooLate:
        arrived += 1
    fired.clear()
    dropped.clear()
print(arrived > 60, [traceback.format_exception(one) for one in lost if one.__traceback__ is not None])
"""
    ).succeeded()
    assert run.out.split() == ["True", "[]"], run.out
    assert [one.adapters_failed for one in run.processes if one.adapters_failed] == []


READS = """
class Rows(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        path = f"{__file__}.{index}.npy"
        numpy.save(path, numpy.zeros(4))
        if index == 2:
            open(path, "r+b").truncate(100)
        try:
            return numpy.load(path)
        except ValueError:
            numpy.save(path, numpy.zeros(4))
            return SECOND

for batch in DataLoader(Rows()):
    pass
"""


def errors(process: Process) -> list[str]:
    return [each.type for one in process.shards for each in one.errors if one.library == "readers"]


def test_an_error_of_a_reader_that_the_dataset_catches_is_told(recorded: Recorded) -> None:
    run = recorded(BEGIN + READS.replace("SECOND", "numpy.zeros(4)")).succeeded()
    assert [one for each in run.processes for one in errors(each)] == ["ValueError"]


def test_a_file_that_could_be_read_after_all_is_no_error(recorded: Recorded) -> None:
    run = recorded(BEGIN + READS.replace("SECOND", "numpy.load(path)")).succeeded()
    assert [one for each in run.processes for one in errors(each)] == []
    assert [one.failed for each in run.processes for one in each.shards] == [0]


def test_a_compressed_file_that_is_cut_off_is_told_and_what_tarfile_tries_is_not(recorded: Recorded) -> None:
    run = recorded(GZIP).succeeded()
    told = [each for one in run.processes for shards in one.shards for each in shards.errors]
    assert [(one.type, one.path.rpartition(".")[2]) for one in told] == [("EOFError", "gz")]
