"""Pauses of the garbage collector are recorded, and nothing that is raised meanwhile is lost."""

from __future__ import annotations

from collections.abc import Callable

from running import LOOP, Run

HEAP = "\nheap = [[number] for number in range(300_000)]\n"


def test_a_long_collection_in_a_loop_is_a_part_of_that_body(recorded: Callable[..., Run]) -> None:
    run = recorded(LOOP + HEAP + "for rows in training:\n    optimizer.step()\n    gc.collect()\n").succeeded()

    main = run.main.process()
    calls = {one.name: one for one in main.calls}
    assert set(calls) == {"gc.collect", "garbage collection"}
    asked, paused = calls["gc.collect"], calls["garbage collection"]
    assert (asked.what, asked.timing.count, asked.where.function if asked.where else "") == (
        "collection",
        4,
        "<module>",
    )
    assert paused.timing.count >= 4
    assert main.collecting.count >= 4
    (parts,) = [one.between for one in main.loaders if one.batches]
    assert [(one.what, one.name, one.count) for one in parts] == [("collection", "gc.collect", 4)]


def test_what_is_collected_before_the_first_step_is_set_up_and_a_second_loader_begins_nothing_anew(
    recorded: Callable[..., Run],
) -> None:
    run = recorded(
        LOOP + HEAP + "gc.collect()\ntrain()\nfor rows in training:\n    optimizer.step()\n    gc.collect()\nlook()\n"
    ).succeeded()

    main = run.main.process()
    (asked,) = [one for one in main.calls if one.name == "gc.collect" and one.timing.count == 4]
    assert asked.timing.total * 0.9 <= main.collecting.total <= asked.timing.total * 1.5
    assert 4 <= main.collecting.count <= 8


def test_a_time_out_that_strikes_while_garbage_is_collected_reaches_the_user(recorded: Callable[..., Run]) -> None:
    run = recorded(
        LOOP
        + HEAP
        + """
import signal
class TimeOut(Exception):
    pass
def strike(*_):
    raise TimeOut
signal.signal(signal.SIGALRM, strike)
caught = 0
for _ in range(30):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        gc.collect()
        time.sleep(0.5)
    except TimeOut:
        caught += 1
print(caught)
"""
    )

    assert run.succeeded().out.split() == ["30"]


def test_a_forked_child_leaves_the_collector_alone(recorded: Callable[..., Run]) -> None:
    run = recorded(
        LOOP
        + "train()\npid = os.fork()\nif not pid:\n    print(len(gc.callbacks), flush=True)\n    os._exit(0)\nos.wait()"
    )

    assert run.succeeded().out.split() == ["0"]
