"""Side work of the main thread is timed by name and line, once, and taken out of the time between batches."""

from __future__ import annotations

from collections.abc import Callable

from running import LOOP, Run

WRAPPED = (
    LOOP
    + """
import threading
from _unstuck_inside.side_work.calls import timed
from _unstuck_inside.core.guard import Guard
guard = Guard("test", lambda *_: None)
log = timed(lambda seconds=0.0: time.sleep(seconds), "logger", "some.log", guard)
upload = timed(lambda: log(0.02), "http", "POST somewhere", guard)
def fail():
    raise ValueError("no route")
fails = timed(fail, "logger", "some.fail", guard)
"""
)


def test_calls_are_counted_by_line_and_belong_to_the_body_they_are_in(recorded: Callable[..., Run]) -> None:
    run = recorded(WRAPPED + "for rows in training:\n    log(0.03)\nlog(0.01)\n").succeeded()

    main = run.main.process()
    assert [(one.name, one.where.line, one.timing.count) for one in main.calls if one.where] == [
        ("some.log", main.calls[0].where.line, 4),  # type: ignore[union-attr]
        ("some.log", main.calls[0].where.line + 1, 1),  # type: ignore[union-attr]
    ]
    (loader,) = [one for one in main.loaders if one.batches]
    (part,) = loader.between
    assert (part.what, part.count) == ("logger", 4)
    assert 0.12 <= part.seconds <= loader.between_of.total
    assert loader.gaps[0].parts[0].name == "some.log"


def test_only_the_outermost_call_counts(recorded: Callable[..., Run]) -> None:
    run = recorded(WRAPPED + "train()\nupload()\n").succeeded()

    assert [(one.what, one.timing.count) for one in run.main.process().calls] == [("http", 1)]


def test_another_thread_holds_nobody_up(recorded: Callable[..., Run]) -> None:
    run = recorded(WRAPPED + "train()\nother = threading.Thread(target=log)\nother.start()\nother.join()\n").succeeded()

    assert run.main.process().calls == []


def test_a_call_that_fails_says_so_and_raises_without_a_frame_of_ours(recorded: Callable[..., Run]) -> None:
    run = recorded(
        WRAPPED
        + """
train()
import traceback
try:
    fails()
except ValueError as error:
    print(sum(unstuck.__path__[0] in one.filename for one in traceback.extract_tb(error.__traceback__)))
"""
    ).succeeded()

    (call,) = run.main.process().calls
    assert (call.failed, call.said, run.out.split()) == (1, "ValueError: no route", ["0"])


def test_a_call_that_goes_on_is_seen_while_it_does(recorded: Callable[..., Run]) -> None:
    run = recorded(WRAPPED + "train()\nfails = timed(lambda: os._exit(0), 'logger', 'some.finish', guard)\nfails()\n")

    (call,) = run.main.process().calls
    assert call.name == "some.finish"
    assert call.since is not None


def test_what_lies_between_two_passes_is_told_apart(recorded: Callable[..., Run]) -> None:
    # given a validation that takes long enough to be told: parts below a millisecond are not
    look = "for rows in held_out:\n    model(rows)\n    time.sleep(0.005)\n"
    run = recorded(WRAPPED + f"train()\n{look}log(0.5)\ntrain()\n").succeeded()

    (loader,) = [one for one in run.main.process().loaders if one.optimizer_steps]
    (boundary,) = loader.boundaries
    assert boundary.number == 1
    assert [one.what for one in boundary.parts][:1] == ["logger"]
    assert "validation" in {one.what for one in boundary.parts}
    assert boundary.rest < boundary.seconds - 0.5
