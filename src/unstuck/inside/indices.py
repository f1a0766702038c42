"""The list of a batch's indices, as the fetcher is handed it: it notes when each is taken."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .format import H_FIRST_SAMPLE, MASK, Kind
from .recorder import clock
from .variables import variables

if TYPE_CHECKING:
    from .fetches import Stream

NO_INDEX = -1
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # an index beyond is no number that fits a word
PLAIN = (1 << 30) - 1  # an index beyond costs Python more to compare
NOT_TAKEN: list[int] = []


class Indices(list):  # type: ignore[type-arg]
    """A batch's list of indices that notes when each is taken."""

    __slots__ = ("given", "marks", "stream")
    stream: Stream
    given: list[Any]
    marks: list[int]  # when each sample was begun, when the last was done, when the batch was

    def __iter__(self) -> Iterator[Any]:
        """The indices one by one: when the fetcher takes the next, the sample before it is done.

        Little more than the time is noted here, because this runs for every sample there is; what goes on is on the
        board at once.
        """
        stream = self.stream
        words, phase, measured = stream.words, stream.phase, not stream.batches & stream.seldom
        at = phase + 1
        marks = self.marks = []
        for index in self.given:
            try:
                now = clock()
                marks.append(now)
                if type(index) is int and 0 <= index <= PLAIN:
                    words[at] = index
                    words[phase] = now << 2 | 1  # FETCH_SAMPLE
                else:
                    self.show(index, now)
                if measured and len(marks) == 2:
                    if not words[H_FIRST_SAMPLE]:
                        words[H_FIRST_SAMPLE] = now
                    stream.unit = clock() - now  # what one sample costs; it stands for all
            except Exception as error:
                if stream.theirs(error):
                    raise
            # No `finally`: where the dataset ends or raises, it would run while this generator is thrown away, and
            # what a signal handler raises there is lost.
            yield index
        try:
            now = clock()
            marks.append(now)
            words[phase] = now << 2 | 2  # FETCH_COLLATE
        except Exception as error:
            if stream.theirs(error):
                raise

    def show(self, index: Any, now: int) -> None:
        """Put an index on the board that is no plain number: a name, none at all, a large or negative one."""
        stream = self.stream
        number = _number(index)
        if number is not index:
            stream.odd = self
        if type(index) is str:
            at = (stream.slot, Kind.SAMPLE, stream.loader, now, index, stream.batches, stream.samples)
            stream.recorder.board_text(*at)
        else:
            stream.words[stream.phase + 1] = number & MASK
            stream.words[stream.phase] = now << 2 | 1  # FETCH_SAMPLE


def numbers_of(indices: Indices) -> list[int]:
    return [_number(index) for index in list.__iter__(indices)]


def first_done(batch: Indices | tuple[int, int, int]) -> int:
    """When the first sample of a batch was: the next was begun, or the batch as a whole was done."""
    return batch.marks[1] if isinstance(batch, Indices) else batch[1]


def first_index(trace: TracebackType | None) -> Any:
    """The index that the first `__getitem__` method on the way was called with."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__getitem__" and code.co_argcount == 2:
            return variables(trace.tb_frame).get(code.co_varnames[1])
        trace = trace.tb_next
    return None


def _number(index: Any) -> int:
    return index if type(index) is int and LEAST <= index <= MOST else NO_INDEX
