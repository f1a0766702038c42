"""webdataset: which shards a process opens, the samples they give, and what handlers do about errors.

Shards and samples are counted by `map` around the library's own generators: no frame of ours lies in a traceback.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from itertools import chain
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, clean, replace, replace_everywhere, together
from ..core.objects import attributes_of
from ..core.recorder import clock
from ..format import Kind
from ..sources.webdataset import Walk, begin, finish, here, made

MODULES = ("webdataset.pipeline", "webdataset.filters", "webdataset.cache", "webdataset.tariterators")
OWES = (Kind.SHARDS, Kind.SHARD_ERROR)


def install(module: ModuleType, guard: Guard) -> Undo:
    name = module.__name__.rpartition(".")[2]
    if name == "pipeline":
        owner = module.DataPipeline
        return together(
            replace(owner, "__init__", lambda original: around(original, guard, _made)),
            replace(owner, "iterator1", lambda original: _pass(original, guard)),
        )
    if name == "filters":
        return replace(module.FilterFunction, "__call__", lambda original: _filter(original, guard))
    if name == "cache":
        openers = [vars(module).get(one) for one in ("StreamingOpen", "FileCache")]
        made = [replace(one, "__call__", lambda original: _opener(original, guard)) for one in openers if one]
        return together(*made)
    return together(
        replace_everywhere(module, "url_opener", lambda original: _opener_function(original, guard)),
        replace_everywhere(module, "tar_file_expander", lambda original: _expander(original, guard)),
        replace_everywhere(module, "group_by_keys", lambda original: _grouper(original, guard)),
    )


def _made(frame: FrameType, args: Any, _kwargs: Any) -> None:
    made(args[0], frame)


def _pass(original: Any, guard: Guard) -> Any:
    """Stages are put together inside of it, one after the other, and run later."""

    def iterator1(self: Any) -> Any:
        before, here.walk = here.walk, guard.result(begin, self)
        try:
            return original(self)
        except Exception as error:
            clean(error)
            raise
        finally:
            here.walk = before

    return iterator1


def _filter(original: Any, guard: Guard) -> Any:
    """A stage with arguments. Its handler is put into a copy: the user's own object stays as it is."""

    def __call__(self: Any, data: Any) -> Any:
        twin = guard.result(_twin, self, here.walk, guard) if here.walk is not None else None
        try:
            return original(self if twin is None else twin, data)
        except Exception as error:
            clean(error)
            raise

    return __call__


def _twin(stage: Any, walk: Walk, guard: Guard) -> Any:
    own = attributes_of(stage)
    function, named, args = own.get("f"), own.get("kw") or {}, own.get("args") or ()
    code = getattr(function, "__code__", None)
    names = code.co_varnames[1 : code.co_argcount] if code is not None else ()  # the first is the data
    at = names.index("handler") if "handler" in names else len(args)
    handler = args[at] if at < len(args) else named.get("handler") or _default(function, names)
    if not callable(handler):
        return None
    twin, ask = copy.copy(stage), _asked(handler, walk, guard)
    if at < len(args):
        twin.args = (*args[:at], ask, *args[at + 1 :])
    else:
        twin.kw = {**named, "handler": ask}
    return twin


def _default(function: Any, names: tuple[str, ...]) -> Any:
    """The handler of a stage that was given none: most often the one that raises."""
    after = getattr(function, "__kwdefaults__", None) or {}
    last = getattr(function, "__defaults__", None) or ()
    return {**dict(zip(names[len(names) - len(last) :], last, strict=True)), **after}.get("handler")


def _asked(handler: Any, walk: Walk, guard: Guard) -> Any:
    """The user's handler. What it raises goes on, most often the error itself."""

    def ask(error: Exception) -> Any:
        frame, begun = sys._getframe(1), clock()
        try:
            answer = handler(error)
        except Exception as raised:
            guard.quietly(walk.fails, error, handler, None, frame, clock() - begun)
            clean(raised)
            raise
        guard.quietly(walk.fails, error, handler, bool(answer), frame, clock() - begun)
        return answer

    return ask


def _opener(original: Any, guard: Guard) -> Any:
    """`StreamingOpen` and `FileCache`, which have their handler as an attribute."""

    def __call__(self: Any, urls: Any) -> Any:
        walk = here.walk
        if walk is None:
            return original(self, urls)
        twin, handler = self, attributes_of(self).get("handler")
        if callable(handler):
            twin = copy.copy(self)
            twin.handler = _asked(handler, walk, guard)
        return _opened(original(twin, map(walk.takes, urls)), walk, guard)

    return __call__


def _opener_function(original: Any, guard: Guard) -> Any:
    def url_opener(data: Any, *args: Any, **kwargs: Any) -> Any:
        walk = here.walk
        if walk is None:
            return original(data, *args, **kwargs)
        return _opened(original(map(walk.takes, data), *args, **kwargs), walk, guard)

    return url_opener


def _opened(streams: Iterable[Any], walk: Walk, guard: Guard) -> Iterable[Any]:
    def opens(source: Any) -> Any:
        try:
            walk.opens(str(source["url"]))
        except Exception as error:
            if guard.theirs(error):
                raise
        return source

    return chain(map(opens, streams), finish(walk))


def _expander(original: Any, guard: Guard) -> Any:
    def tar_file_expander(data: Any, *args: Any, **kwargs: Any) -> Any:
        walk = here.walk
        files = original(data, *args, **kwargs)
        return files if walk is None or not walk.counts_files else map(_named(walk, guard), files)

    return tar_file_expander


def _named(walk: Walk, guard: Guard) -> Any:
    def has(file: Any) -> Any:
        try:
            if file:  # else it says that a shard is through
                walk.has_file(str(file["fname"]))
        except Exception as error:
            if guard.theirs(error):
                raise
        return file

    return has


def _grouper(original: Any, guard: Guard) -> Any:
    def group_by_keys(data: Any, *args: Any, **kwargs: Any) -> Any:
        walk = here.walk
        samples = original(data, *args, **kwargs)
        return samples if walk is None else map(_counted(walk, guard), samples)

    return group_by_keys


def _counted(walk: Walk, guard: Guard) -> Any:
    delivers = walk.delivers

    def count(sample: Any) -> Any:
        try:
            delivers()
        except Exception as error:
            if guard.theirs(error):
                raise
        return sample

    return count
