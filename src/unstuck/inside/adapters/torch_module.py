"""`torch.nn.Module`: when models are made, and whether they are to train or to be evaluated (`eval` calls `train`).

A model is made when the parameters of its modules are registered: the first, the newest, how many. torch has a global
hook for it, so that nothing of the user's is wrapped. It runs for every parameter there is.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, together
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_ELEMENTS, H_MODEL_BEGUN, H_MODEL_ENDED, H_PARAMETERS, Kind
from ..loading.passes import modes

MODULES = ("torch.nn.modules.module",)
OWES = (Kind.ITERATOR,)  # whose modes it is that this brings


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module.Module, "train", lambda original: _train(original, module.torch, guard)),
        _count_parameters(module, guard),
    )


def _train(original: Any, torch: Any, guard: Guard) -> Any:
    inside = False  # a module sets all its parts: only the outermost call says what is wanted

    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        # Dynamo takes the question for a constant, so that it never sees what is ours. torch 2.2 cannot be asked.
        if inside or getattr(torch.compiler, "is_compiling", bool)():
            return original(self, *args, **kwargs)
        inside = True
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        finally:
            inside = False
        guard.quietly(modes.set, self, args[0] if args else kwargs.get("mode", True))
        return result

    return train


def _count_parameters(module: Any, guard: Guard) -> Undo:
    """`module` is torch.nn.modules.module. Where it has no such hook, nothing is known of models."""
    register = getattr(module, "register_module_parameter_registration_hook", None)
    if register is None:
        return lambda: None
    hook = _counting_hook(guard)
    hook._torchdynamo_disable = True
    return register(hook).remove  # type: ignore[no-any-return]


def _counting_hook(guard: Guard) -> Any:
    known: Recorder | None = None
    words = memoryview(bytes(8)).cast("Q")
    counted = elements = 0

    def registered(_module: Any, _name: Any, parameter: Any) -> None:
        nonlocal known, words, counted, elements
        recorder = process.recorder
        if recorder is None or process.optimizer_steps:  # what is made between steps is not the model
            return
        try:
            now = clock()
            if recorder is not known:
                known, words, counted, elements = recorder, recorder.words, 0, 0
                words[H_MODEL_BEGUN] = now
            counted += 1
            # A lazy parameter has no shape yet, and raises when asked; a subclass may run code of the user's.
            if type(parameter).__name__ == "Parameter":
                elements += parameter.numel()
                words[H_ELEMENTS] = elements
            words[H_PARAMETERS] = counted
            words[H_MODEL_ENDED] = now
        except Exception as error:
            if guard.theirs(error):
                raise

    return registered
