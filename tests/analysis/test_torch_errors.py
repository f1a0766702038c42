"""Every kept text of torch, NCCL, gloo and CUDA: what is read out of it, and how a rank that says so has ended.

The texts are those of public threads and of torch's sources: none was seen on a GPU here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.rank_deaths import deaths
from unstuck.analysis.torch_errors import KINDS, TorchError, errors_of, torch_error
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.process import Failure, Process

HERE = Path(__file__).parents[1]
KEPT = sorted((HERE / "texts").glob("*/*.txt"))
HEADINGS = ["source", "torch", "what", "concludes", "died", "late", "told"]


def kept(path: Path) -> tuple[dict[str, str], str]:
    head, _, text = path.read_text().partition("\n\n")
    return dict(line[2:].split(": ", 1) for line in head.splitlines()), text


def died(kind: str, message: str, causes=()) -> str:
    line = Place("/project/train.py", 31, "train")
    failure = Failure(how="uncaught", type=kind, message=message, at=5.0, frames=[line], causes=list(causes))
    rank = Process("n", 100, 10, "main", rank=0, world=2, failures=[failure])
    (death,) = deaths(Case(Evidence(run=Run(id="r"), recording=[rank], exits=[])))
    return death.how


def read(found: TorchError | None) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(found))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_text_says_what_is_kept_with_it(path):
    head, text = kept(path)

    found = torch_error(text)

    assert list(head) == HEADINGS
    assert found is not None
    assert found.words in text
    told = {name: value for name, value in read(found).items() if name != "words"}
    assert told == msgspec.json.decode(head["told"])
    assert found.late == (head["late"] == "yes")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_rank_that_raised_it_has_ended_so(path):
    head, text = kept(path)

    assert died("DistBackendError", text) == head["died"]
    assert died("StepFailed", "in step 7", [("DistBackendError", text)]) == head["died"]


def test_there_is_a_text_of_every_kind_but_the_store_s():
    kinds = {msgspec.json.decode(kept(path)[0]["told"])["kind"] for path in KEPT}

    assert kinds == {kind for kind, _ in KINDS} - {"not met"}


GLOO = "[/build/third_party/gloo/gloo/transport/tcp/"
STORE = "The client socket has timed out after 9000ms while trying to connect to (10.0.0.7, 29500)."
OTHERS = [
    (f"{GLOO}pair.cc:553] Connection closed by peer [127.0.0.1]:1234.", "partner gone", {"kind": "remote error"}),
    (
        f"{GLOO}unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete",
        "gave up",
        {"kind": "timeout", "timeout_ms": 8000},
    ),
    (
        "Ranks 1, 3 failed to pass monitoredBarrier in 2000 ms",
        "gave up",
        {"kind": "timeout", "timeout_ms": 2000, "absent": [1, 3]},
    ),
    (
        "Timed out after 9 seconds waiting for clients. 1/2 clients joined.",
        "alone",
        {"kind": "not met", "joined": 1, "world": 2},
    ),
    (STORE, "alone", {"kind": "not met", "address": "10.0.0.7:29500"}),
]


@pytest.mark.parametrize(("text", "how", "told"), OTHERS)
def test_gloo_and_the_store_are_read_by_the_same_code(text, how, told):
    found = read(torch_error(text))

    assert died("RuntimeError", text) == how
    assert {name: value for name, value in found.items() if name != "words"} == told


OWN = [
    "[Errno 104] Connection reset by peer",
    "HTTPConnectionPool: Read timed out.",
    "size mismatch for head.weight",
    "rank 3 of the tensor is wrong",
    "Assertion failed: label in range",
    "CUDA is not available",
]


@pytest.mark.parametrize("text", OWN)
def test_the_words_of_a_program_itself_are_none_of_these(text):
    assert torch_error(text) is None
    assert died("RuntimeError", text) == "raised"


def test_a_message_that_was_cut_in_the_middle_is_still_read():
    head, text = kept(HERE / "texts" / "cuda" / "assert-with-search.txt")
    failure = Failure(how="uncaught", type="E", message=text[:280], causes=[("RuntimeError", text[:230])])

    assert [one.late for one in errors_of(failure)] == [True, True]
    assert isinstance(errors_of(failure)[0], TorchError)
    assert head["late"] == "yes"
