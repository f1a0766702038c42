"""Measure the loader as it is, then with one part of its work taken away at a time: the differences tell the limit."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..loaders import rebuilt
from ..profile import Profile
from ..stand_ins import cached, endless, nothing, samples
from ..storage import OpenedFiles, counters, read_plainly
from ..target import opened
from ..timing import Timed
from ..usage import Served

if TYPE_CHECKING:
    from ..request import Facts

SHORT = 0.25  # seconds a batch may take: of a slow loader, smaller ones are measured
FIRST = 0.5  # of the time: what may be left out, and must come before the main process loads anything
GLANCE = 4  # samples that tell how long one takes
EACH = 2.0  # seconds for one measurement
LOOKED = 4.0  # for the one that is looked at: what it waits for is seen twenty times a second
ALONE, AS_IT_IS, MEMORY, KEPT = "0 workers", "as it is", "from memory", "nothing sent"


def run(request: dict[str, Any], facts: Facts) -> None:
    """`total`: seconds for all of it; `each`: that a sample takes; `files`: that samples are known to read.

    Workers come first: what the main process loads by itself fills caches and starts threads that they would inherit.
    """
    options = request["options"]
    loader = opened(request, facts)
    benchmark = Benchmark(loader, facts, options)
    workers = loader.num_workers
    if workers:
        benchmark.measure(AS_IT_IS, workers, benchmark.as_it_is(num_workers=workers))
        benchmark.measure(KEPT, workers, benchmark.as_it_is(num_workers=workers, collate_fn=nothing), FIRST)
    for number in {1, 2} - {workers} if workers < 2 else {1}:
        name = f"{number} worker{'s' * (number > 1)}"
        benchmark.measure(name, number, benchmark.as_it_is(num_workers=number), FIRST)
    files = benchmark.alone()
    if not workers:
        benchmark.measure(KEPT, 0, benchmark.as_it_is(num_workers=0, collate_fn=nothing))
    benchmark.measure(MEMORY, workers, lambda: (cached(loader, EACH, num_workers=workers, **benchmark.smaller), None))
    facts.put(variant="")
    paths = [one for one in dict.fromkeys([*options.get("files", ()), *files]) if os.path.isfile(one)]
    facts.put(plain=read_plainly(paths, EACH) if paths else None, paths=paths[:8])


class Benchmark:
    """One loader, measured in several forms; what was measured so far is written down."""

    def __init__(self, loader: Any, facts: Facts, options: dict[str, Any]) -> None:
        self.loader, self._facts = loader, facts
        self._began, self._total = time.monotonic(), options.get("total", 30.0)
        self.measured: list[dict[str, Any]] = []
        self.smaller: dict[str, Any] = _smaller(loader, options.get("each"))

    def as_it_is(self, **changes: Any) -> Callable[[], tuple[Any, Any]]:
        def make() -> tuple[Any, Any]:
            if self.smaller:
                without_end, drawn = endless(rebuilt(self.loader, **self.smaller))
            else:
                without_end, drawn = endless(self.loader)
            return rebuilt(self.loader, **without_end, **changes, **self.smaller), drawn

        return make

    def measure(
        self, name: str, workers: int, make: Callable[[], tuple[Any, Any]], within: float = 1.0
    ) -> dict[str, Any]:
        """`within`: the part of the time after which it is left out."""
        one: dict[str, Any] = {"name": name, "workers": workers}
        self._facts.put(variant=name, pid=os.getpid())
        began = time.monotonic()
        if began - self._began > self._total * within:
            one["failed"] = "no time was left for it"
        else:
            try:
                one |= _timed(*make(), workers, LOOKED if name == ALONE else EACH)
            except Exception as error:  # noqa: BLE001  (a form of ours that this loader does not bear)
                one["failed"] = f"{type(error).__name__}: {error}"[:200]
        one["took"] = time.monotonic() - began
        self.measured.append(one)
        self._facts.put(measured=self.measured)
        return one

    def alone(self) -> list[str]:
        """Without workers: what a sample costs, where, and what it reads. The files that it opened."""
        files = OpenedFiles()
        files.listening = True
        before, served = counters(), Served()
        with Profile() as profile:
            one = self.measure(ALONE, 0, self.as_it_is(num_workers=0))
        blocked, system = served.blocked(), served.system()
        files.listening = False
        count = one.get("samples") or 1
        every = count + count / (one.get("batches") or 1)  # with the first batch, which was not timed
        asked, fetched = (now - then for now, then in zip(counters(), before, strict=True))
        self._facts.put(
            alone={
                "batch": self.smaller.get("batch_size"),
                "seconds": one.get("seconds", 0.0) / count,
                "cpu": one.get("processors", 0.0) * one.get("seconds", 0.0) / count,
                "asked": asked / every,
                "fetched": fetched / every,
                "blocked": blocked,
                "system": system,
                "profile": profile.told(),
            }
        )
        return list(files.paths)


def _timed(loader: Any, drawn: Any, workers: int, seconds: float) -> dict[str, Any]:
    timed = Timed(loader, drawn, workers, None)
    timed.warm_up(seconds)
    found = timed.run(seconds)
    timed.end()
    return {**found, "start": timed.start}


def _smaller(loader: Any, each: float | None) -> dict[str, Any]:
    """A smaller batch where one would take long: what it costs to load a sample does not depend on it."""
    size = loader.batch_size
    if not isinstance(size, int) or size <= 1:
        return {}
    wanted = max(1, int(SHORT / max(each or _glanced(loader), 1e-9)))
    return {"batch_size": wanted} if wanted < size else {}


def _glanced(loader: Any) -> float:
    """Seconds that a sample takes, tried in a process apart."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            count, began = 0, time.perf_counter()
            for _ in itertools.islice(samples(loader), GLANCE):
                count += 1
                if time.perf_counter() - began > SHORT:
                    break
            os.write(writing, str((time.perf_counter() - began) / max(count, 1)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        told = answer.read()
    os.waitpid(pid, 0)
    return float(told) if told else 0.0
