"""What stands in front of tensors that safetensors saved, judged as its own reader does."""

from __future__ import annotations

import math
import re

import msgspec

from ..broken import Broken

LONGEST = 16 << 20  # bytes of a header: 150,000 tensors. Its own reader takes 100 MB, of which objects would take 3 GB
# F32, BF16, U8, F8_E4M3. Types that are newer than we are will be called alike, with their bits in the name.
KIND = re.compile(r"(?:BF|F|I|U|C)([1-6]|8|16|32|64|128)(?:_[A-Z0-9]+)?|BOOL")


class Tensor(msgspec.Struct, frozen=True):
    """One entry of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


_entries = msgspec.json.Decoder(dict[str, msgspec.Raw])
_metadata = msgspec.json.Decoder(dict[str, str])
_tensor = msgspec.json.Decoder(Tensor)


class Tensors:
    """All of them, in the order of their data."""

    def __init__(self, header: bytes) -> None:
        """Raises Broken."""
        try:
            header.decode()
            entries = _entries.decode(header)
            _metadata.decode(entries.pop("__metadata__", msgspec.Raw(b"{}")))
            self._all = sorted(
                ((name, _tensor.decode(raw)) for name, raw in entries.items()), key=lambda one: one[1].data_offsets
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Broken("damaged", f"its header cannot be read: {error}") from error
        self.count = len(self._all)
        self.size = self._all[-1][1].data_offsets[1] if self._all else 0
        self._judge()

    def _judge(self) -> None:
        end = 0
        for name, tensor in self._all:
            start, until = tensor.data_offsets
            if start != end or until < start:
                raise Broken(
                    "damaged", f"the header puts {name} at bytes {start:,} to {until:,}; {end:,} is where it must begin"
                )
            end = until
            bits = _bits(tensor.dtype)
            needed = math.prod(tensor.shape) * bits
            if not bits or needed != 8 * (until - start) or min(tensor.shape, default=0) < 0:
                what = f"{name} is {tensor.dtype} {tensor.shape}, {needed // 8:,} bytes, and has {until - start:,}"
                raise Broken("damaged", what)


def _bits(kind: str) -> int:
    """Of one value; 0: there is no such type."""
    found = KIND.fullmatch(kind)
    return 0 if found is None else int(found[1] or 8)
