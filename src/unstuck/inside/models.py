"""When a model was made, by the parameters that are registered in its modules: the first, the newest, how many.

torch has a global hook for it, so that nothing of the user's is wrapped. It runs for every parameter there is.
"""

from __future__ import annotations

from typing import Any

from .format import H_ELEMENTS, H_MODEL_BEGUN, H_MODEL_ENDED, H_PARAMETERS
from .guard import Guard
from .patching import Undo
from .process import process
from .recorder import Recorder, clock


def install(module: Any, guard: Guard) -> Undo:
    """`module` is torch.nn.modules.module. Where it has no such hook, nothing is known of models."""
    register = getattr(module, "register_module_parameter_registration_hook", None)
    if register is None:
        return lambda: None
    hook = _hook(guard)
    hook._torchdynamo_disable = True
    return register(hook).remove  # type: ignore[no-any-return]


def _hook(guard: Guard) -> Any:
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
