"""An exception that a library's thread raises again while it is on its way out of the main one."""

from __future__ import annotations

from collections.abc import Callable

from running import Run

Recorded = Callable[..., Run]


def test_frames_are_those_of_the_raising_even_if_a_thread_raises_the_same_object_again(recorded: Recorded) -> None:
    run = recorded("""
        import sys, threading
        import torch
        def again(error):
            try:
                raise error.with_traceback(None)
            except OSError:
                pass
        before = sys.excepthook
        def hook(kind, error, trace):
            thread = threading.Thread(target=again, args=(error,))
            thread.start()
            thread.join()
            before(kind, error, trace)
        sys.excepthook = hook
        def train():
            raise OSError("connection lost")
        train()
    """)
    (failure,) = run.main.process().failures
    assert [(one.line, one.function) for one in failure.frames][-2:] == [(17, "<module>"), (16, "train")]
