"""Which stretches of a run train and which validate, and the numbers of epochs: for the log and the report alike."""

from __future__ import annotations

TRAINING, VALIDATION, CHECKPOINT, PREDICTION = "training", "validation", "checkpoint", "prediction"
UNKNOWN = ""
FAR = 8  # batches without an optimizer step, where a step usually takes fewer: the pass does not train
MEANT = {
    TRAINING: ("train", "training", "fit"),
    VALIDATION: (
        "val",
        "valid",
        "validate",
        "validating",
        "validation",
        "eval",
        "evaluate",
        "evaluating",
        "evaluation",
        "test",
        "testing",
        "sanity check",
    ),
    PREDICTION: ("predict", "predicting", "prediction"),
    CHECKPOINT: ("checkpoint", "checkpointing", "save", "saving"),
}


def meant(name: str) -> str:
    """What a name that the user gave stands for; itself, where it is none of these."""
    plain = name.strip().lower()
    return next((kind for kind, names in MEANT.items() if plain in names), name.strip())


def takes_in(told: str, modes: int) -> bool:
    """Whether a pass is what the user says about the stretch it lies in. Training may have a validation inside."""
    return told in (VALIDATION, PREDICTION) or (told == TRAINING and not modes)


def kind_of_pass(steps: int, modes: int, *, enough: bool, trains: bool) -> str:
    """Of a pass that nobody said anything about. An optimizer step says most, then how it began.

    `enough`: it has come to its end, or far. Without a step, in a process that has some in other passes over whichever
    loader, such a pass validates.
    """
    if steps > 0:
        return TRAINING
    if modes or (enough and trains):
        return VALIDATION
    return UNKNOWN


class Epochs:
    """Numbers them, in the order of time: each loader counts those it trains, all else belongs to the newest."""

    def __init__(self) -> None:
        self.newest = -1
        self._trained: dict[int, int] = {}  # by loader: how often it was

    def of_pass(self, loader: int, number: int, kind: str) -> int:
        """Passes over this loader that nobody knows of any more are taken to have trained."""
        own = self._trained.setdefault(loader, number - 1)
        if kind != TRAINING:
            return self.now()
        self._trained[loader] = own + 1
        self.newest = max(self.newest, own)
        return own

    def was_training(self, loader: int, epoch: int) -> None:
        """A pass that was given this number before it was known to train."""
        self._trained[loader] = max(self._trained.get(loader, 0), epoch + 1)
        self.newest = max(self.newest, epoch)

    def of_named(self, number: int, kind: str) -> int:
        """A stretch that the user named; `number`: how often he did so before."""
        if kind == TRAINING:
            self.newest = max(self.newest, number)
            return number
        return self.now()

    def now(self) -> int:
        """What does not train belongs to the epoch that trained last, or will train first."""
        return max(self.newest, 0)
