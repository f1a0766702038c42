"""Finds what TARGET names, calls it, and makes a loader of what it gave."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .request import Refused

if TYPE_CHECKING:
    from .request import Facts

ABOUT = "TARGET is module:callable or path.py:callable, for example train.py:make_loader"


def opened(request: dict[str, Any], facts: Facts) -> Any:
    """The loader of the target, as the command line wants it. What it is, is written down."""
    import torch  # noqa: F401  (before the user's modules, so that importing it is not counted as theirs)

    from . import loaders

    facts.put(doing="importing")
    thing = load(request["target"], request.get("kwargs", {}))
    facts.put(doing="constructing")
    loader, gave = loaders.as_loader(thing, request["target"], request.get("options", {}))
    facts.put(doing="", gave=gave, loader=loaders.described(loader))
    return loader


def load(name: str, kwargs: dict[str, Any]) -> object:
    """What the callable gives, or the object itself where the name is no callable."""
    where, _, attribute = name.rpartition(":")
    module = _module(where)
    thing = _attribute(module, attribute, where)
    if not callable(thing) or _is_loader(thing):
        return thing
    _check_arguments(thing, name, kwargs)
    try:
        with nothing_is_trained():
            return thing(**kwargs)
    except Trains as found:
        what = f"{name} trains instead of returning a loader ({found})"
        raise Refused(what, "name a callable that only makes the DataLoader and returns it") from None
    except Exception as error:
        _refuse_gpu(error, name)
        raise


@contextmanager
def nothing_is_trained() -> Iterator[None]:
    """Whoever takes an optimizer's step in here is a training."""
    from torch.optim import optimizer

    def refuse(*_: Any) -> None:
        raise Trains(f"an optimizer's step at {_caller()}")

    handle = optimizer.register_optimizer_step_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


class Trains(BaseException):  # not an Exception: a training that catches everything must not go on
    """Where, in words."""


def _module(where: str) -> ModuleType:
    path = os.path.abspath(where)
    is_file = where.endswith(".py") or os.path.sep in where
    if is_file and not os.path.isfile(path):
        raise Refused(f"{where} does not exist", ABOUT)
    sys.argv[:] = [path if is_file else where]
    try:
        with nothing_is_trained():
            return _file(path) if is_file else _dotted(where)
    except Refused:
        raise
    except Trains as found:
        what = f"{where} begins to train when it is imported ({found})"
        raise Refused(what, 'put what trains under `if __name__ == "__main__":`') from None
    except SystemExit as left:
        what = f"{where} ends the interpreter when it is imported (SystemExit: {left.code})"
        remedy = 'put what reads arguments and trains under `if __name__ == "__main__":`'
        raise Refused(what, remedy) from None
    except Exception as error:
        _refuse_gpu(error, where)
        raise Refused(f"{where} does not import: {_said(error)}", _remedy(error)) from error


def _dotted(where: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            remedy = "start in the folder above it, install it, or name the file: path/to/file.py:callable"
            raise Refused(f"there is no module {where} here", remedy) from error
        raise


def _file(path: str) -> ModuleType:
    """As an import does it, not as a script: a spawned worker has to find its classes again, by name."""
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, parts = os.path.dirname(folder), [os.path.basename(folder), *parts]
    sys.path.insert(0, folder)
    name = ".".join(parts)
    if len(parts) > 1 or (name.isidentifier() and name not in sys.modules):
        module = importlib.import_module(name)
        if os.path.realpath(module.__file__ or "") == os.path.realpath(path):
            return module
    spec = importlib.util.spec_from_file_location(f"target_{parts[-1]}", path)
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is not a Python file", ABOUT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, attribute: str, where: str) -> Any:
    thing: Any = module
    for part in attribute.split("."):
        if not hasattr(thing, part):
            offered = [one for one, value in vars(module).items() if _offers(value, module)]
            has = f"it has {', '.join(offered[:8])}" if offered else "it has no functions or classes of its own"
            raise Refused(f"{where} has no {attribute!r}", has)
        thing = getattr(thing, part)
    return thing


def _offers(value: object, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def _is_loader(thing: object) -> bool:
    """A loader or dataset may have a __call__ of its own."""
    return not isinstance(thing, type) and not inspect.isroutine(thing) and hasattr(thing, "__iter__")


def _check_arguments(thing: Any, name: str, kwargs: dict[str, Any]) -> None:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        missing = [
            one.name
            for one in signature.parameters.values()
            if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            and one.name not in kwargs
        ]  # fmt: skip
        if missing:
            example = ", ".join(f'"{one}": …' for one in missing)
            raise Refused(f"{name} needs {', '.join(missing)}", f"give it: --kwargs '{{{example}}}'") from None
        raise Refused(f"{name} cannot be called like this: {error}", f"its signature is {signature}") from None


def _refuse_gpu(error: Exception, name: str) -> None:
    """torch's own words when there is no driver, or a build without CUDA, come from one function."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if last and last[0].name == "_lazy_init" and os.path.join("torch", "cuda") in last[0].filename:
        own = [
            one for one in traceback.extract_tb(error.__traceback__) if os.path.join("torch", "") not in one.filename
        ]
        at = f" at {os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else ""
        remedy = "make the loader on the CPU (.to(device) belongs into the training loop), or try on a node with a GPU"
        raise Refused(f"{name} needs a GPU{at} and there is none here", remedy) from error


def _said(error: Exception) -> str:
    own = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    own = [one for one in own if "importlib" not in one.filename]
    at = f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno})" if own else ""
    if isinstance(error, SyntaxError):
        at = f" ({os.path.basename(error.filename or '')}:{error.lineno})"
        return f"SyntaxError: {error.msg}{at}"
    return f"{type(error).__name__}: {error}{at}"


def _remedy(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "install it in this environment, or name the right one with --python"
    return "`python -c 'import …'` shows the same; it has to import before it can be tried"


def _caller() -> str:
    """The innermost line that is not torch's."""
    frame = sys._getframe(2)
    while frame.f_back is not None and os.path.join("torch", "") in frame.f_code.co_filename:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
