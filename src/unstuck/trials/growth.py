"""How large a busy worker gets: with every batch it hands over it takes a little more, until torch cleans up.

torch notes every tensor that a worker hands over, and drops the notes only when there are more than 128 of them. Each
keeps some bytes of the tensor where they are, and free memory around them cannot be joined: so the worker takes new.
Pictures in batches of 32, two tensors each: 21 MiB after one batch, 57 after 32, 99 after 64, 105 after 256; with the
notes dropped at once, 28 MiB whatever the number. A worker that ends with its pass has come as far as its share of it.
"""

from __future__ import annotations

from ..evidence.trial import Needs

FEW = 8  # batches: before them a worker grows for other reasons, too, and nothing is concluded from that


def batches_of_one(needs: Needs, workers: int, batch: int) -> int:
    """Batches after which one of so many workers takes no more: it has ended with its pass, or torch has cleaned up."""
    if not workers:
        return FEW  # nothing is handed over
    most = needs.settles or max((count for count, _ in needs.grown), default=0)
    if needs.lasting or not needs.in_a_pass:
        return most
    return min(-(-needs.in_a_pass // (batch * workers)), most)


def after(needs: Needs, batches: int) -> int:
    """Most that a worker has taken by then, where few were seen continued as it went."""
    marks = [(0, 0), *needs.grown]
    below = max(one for one in marks if one[0] <= batches)
    above = min((one for one in marks if one[0] > batches), default=None)
    if above is not None:
        return _on_the_way(below, above, batches) if below[0] else above[1]
    half = max((one for one in marks if 2 * one[0] <= below[0]), default=below)
    if below[0] < FEW or not half[0]:
        return below[1]
    return _on_the_way(half, below, batches)


def _on_the_way(first: tuple[int, int], second: tuple[int, int], batches: int) -> int:
    return first[1] + (second[1] - first[1]) * (batches - first[0]) // max(second[0] - first[0], 1)
