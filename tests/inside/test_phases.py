"""Training, validation and checkpoints of plain loops, and what `unstuck.phase` says of them."""

from __future__ import annotations

from collections.abc import Callable

from running import LOOP, Run

Recorded = Callable[..., Run]


def phases(run: Run) -> list[tuple[str, int]]:
    return [(one.kind, one.number) for one in run.succeeded().main.process().phases]


def test_epochs_of_training_validation_and_checkpoints_are_told_in_order(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
for epoch in range(2):
    train()
    with torch.no_grad():
        look()
    torch.save({}, __file__ + ".model")
    torch.save({}, __file__ + ".optimizer")
"""
    )
    epoch = ["training", "validation", "checkpoint"]
    assert phases(run) == [(kind, number) for number in (0, 1) for kind in epoch], run.main.process().phases
    first, second, saved = run.main.process().phases[:3]
    assert (first.batches, first.steps, first.number_of_pass, first.told) == (4, 4, 1, False)
    assert (second.batches, second.steps, second.number_of_pass) == (3, 0, 1)
    assert [one.number for one in run.main.process().loaders] == [first.loader, second.loader]
    assert first.ended is not None
    assert first.at <= first.ended <= second.at <= (second.ended or 0) <= saved.at


def test_one_loader_for_both_is_told_apart_by_pass(recorded: Recorded) -> None:
    run = recorded(LOOP + "for epoch in range(2):\n    train()\n    look(training)\n")
    assert phases(run) == [("training", 0), ("validation", 0), ("training", 1), ("validation", 1)]


def test_a_pass_that_shows_nothing_has_no_kind(recorded: Recorded) -> None:
    run = recorded(LOOP + "look()\n")
    assert phases(run) == [("", 0)]


def test_what_the_user_says_counts_more_than_what_shows(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
with unstuck.phase("warm up"):
    look()
train()
with unstuck.phase("Validation"):
    look()
    train()
with unstuck.phase("train"), unstuck.phase("val"):
    look()
"""
    )
    assert phases(run) == [
        ("warm up", 0), ("validation", 0), ("training", 0), ("validation", 0), ("training", 0), ("validation", 0),
    ]  # fmt: skip
    told = [one for one in run.main.process().phases if one.told]
    assert [(one.kind, one.batches, one.steps) for one in told] == [
        ("warm up", 0, 0), ("validation", 7, 4), ("training", 0, 0), ("validation", 3, 0),
    ]  # fmt: skip


def test_a_validation_inside_a_named_training_has_a_stretch_of_its_own(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
for epoch in range(2):
    with unstuck.phase("training"):
        for rows in training:
            optimizer.step()
        with torch.no_grad():
            look()
"""
    )
    assert phases(run) == [("training", 0), ("validation", 0), ("training", 1), ("validation", 1)]


def test_a_process_that_is_killed_is_still_in_its_phase_and_pass(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
train()
with unstuck.phase("drawing samples"):
    for rows in training:
        optimizer.step()
        if rows is not None:
            time.sleep(0.2)
            os.kill(os.getpid(), 9)
"""
    )
    first, drawing, second = run.main.process().phases
    assert first.ended is not None
    assert (drawing.kind, drawing.ended, drawing.told) == ("drawing samples", None, True)
    assert (second.kind, second.ended, second.batches, second.left) == ("training", None, 1, False)


def test_a_loop_that_was_left_says_so(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
loader = DataLoader(torch.rand(8, 1), batch_size=2, num_workers=1)
for epoch in range(2):
    for number, rows in enumerate(loader):
        model(rows).sum().backward()
        optimizer.step()
        if number == 2:
            break
"""
    )
    assert [(one.kind, one.left, one.batches, one.ended is None) for one in run.main.process().phases] == [
        ("training", True, 3, False),
        ("training", True, 3, False),
    ]


def test_phases_said_with_every_step_push_nothing_out_and_cost_little(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
train()
began = time.process_time()
for number in range(6000):
    with unstuck.phase("forward"):
        pass
print((time.process_time() - began) / 6000)
"""
    ).succeeded()
    process = run.main.process()
    assert len(process.loaders) == 2
    assert len(process.phases) == 64
    assert {one.ended is None for one in process.phases} == {False}
    assert float(run.out) < 0.0005  # it is about ten microseconds


def test_phases_are_harmless_when_nothing_records_and_in_a_worker(recorded: Recorded) -> None:
    run = recorded(
        LOOP
        + """
class Named(Numbers):
    def __getitem__(self, index):
        with unstuck.phase("reading"):
            return index

process = sys.modules["_unstuck_inside.core.process"].process
for batch in DataLoader(Named(8), batch_size=2, num_workers=1):
    pass
recorder, process.recorder = process.recorder, None
with unstuck.phase("nobody listens"):
    pass
process.recorder = recorder
"""
    ).succeeded()
    assert [one.kind for one in run.main.process().phases] == [""]
    assert [one.process().phases for one in run.workers] == [[]]
