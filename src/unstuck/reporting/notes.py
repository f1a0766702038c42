"""What a report says beside its findings: how much was done, what is open, and what was ruled out."""

from __future__ import annotations

from ..analysis.case import Case
from ..analysis.loading import lasted
from ..analysis.progress import DEVICE, PERSON, SERVER, STORAGE, Standstill, moves_itself, nothing_of_it, standstills
from ..analysis.side_work import library, without_wandb
from ..analysis.stacks import GPU, OWN
from ..analysis.standstill import main_stack, recorded, waits_in
from ..evidence.finding import Finding, Symptom
from ..evidence.frameworks import Framework
from ..evidence.loader import CALLBACK, LOGGER, SYNCHRONIZE, Call, Loader, LoaderState
from ..evidence.process import Process
from ..wording.text import duration, many, percent, short, who

# A run in half a sentence: how much it did.


def summary(case: Case) -> str:
    """Of the rank that looped longest. Empty: none did."""
    mains = [one for one in case.mains if any(loader.batches for loader in one.loaders)]
    if not mains:
        return ""
    longest = max(mains, key=lambda one: (one.optimizer_steps > 0, sum(map(_looped, _loops(one)))))
    loops = _loops(longest)
    # Two loaders that are gone through at once both count a step that is made meanwhile.
    steps = longest.optimizer_steps or sum(one.optimizer_steps for one in loops)
    done = many(steps, "step") if steps else many(sum(one.batches for one in loops), "batch")
    looped = sum(map(_looped, loops))
    return f"{done} in {duration(looped)}" if looped else done


def _loops(main: Process) -> list[Loader]:
    """Those it trained in; where no step is known, the longest. One that is made anew each epoch counts each time."""
    trained = [one for one in main.loaders if one.optimizer_steps]
    return trained or [max(main.loaders, key=_looped)]


def _looped(loader: Loader) -> float:
    return loader.waits.total + loader.first_waits.total + loader.bodies.total


# Hooks of callbacks and of the model at the ends of epochs: all that are registered were watched, and cost nothing.
#
# Nobody searches the code for their names: the trainer itself says which there are, and each was timed when called.
LITTLE = 0.05  # of the run: who has a run that is slow or stuck need not look there
NAMED = 6  # callbacks that are told by name
BOUNDARIES = (  # rules about what lies between two epochs
    "epoch-boundary-gap", "worker-respawn-epoch-gap", "logger-blocks-epoch-end", "slow-checkpoint", "gc-pauses",
    "loader-shutdown-slow-join",
)  # fmt: skip
AT_ENDS = ("on_train_epoch_end", "training_epoch_end", "on_validation_epoch_end", "on_validation_end")


def cleared(case: Case, roots: list[Finding]) -> list[str]:
    """Of the first rank that has a trainer. Nothing is said while a hook goes on, or where they took long.

    And only where somebody would suspect them: of a run that stands, or loses its time, between two epochs.
    """
    lost = any(one.rule in BOUNDARIES for one in roots)
    for main in case.mains:
        trains = [one for one in main.frameworks if one.what in ("fit", "train")]
        if trains:
            return _lines(main, trains[-1]) if lost or (main.alive and _between_epochs(main)) else []
    return []


def _between_epochs(main: Process) -> bool:
    newest = main.newest_loader
    return newest is not None and (newest.now == LoaderState.BETWEEN_PASSES or not newest.pass_batches)


def _lines(main: Process, framework: Framework) -> list[str]:
    hooks = [one for one in main.calls if one.what == CALLBACK]
    spent, ran = sum(one.timing.total for one in hooks), lasted(main)
    if any(one.since is not None for one in hooks) or spent > LITTLE * ran or not framework.epochs:
        return []
    count = sum(one.timing.count for one in hooks)
    names = ", ".join(one.name for one in framework.callbacks[:NAMED])
    more = f" and {len(framework.callbacks) - NAMED} more" if len(framework.callbacks) > NAMED else ""
    registered = f"{many(len(framework.callbacks), 'callback')} ({names}{more})" if names else "no callback"
    text = (
        f"callbacks are not the cause: {registered} registered, {many(count, 'call')} of hooks at the boundaries of "
        f"epochs took {duration(spent)} in all, {percent(spent / ran) if ran else '0 %'} of the run"
    )
    return [text, *_model(main, framework)]


def _model(main: Process, framework: Framework) -> list[str]:
    """What the model itself does there, where that is known."""
    if not framework.module or framework.name != "Lightning":
        return []
    own = [one for one in framework.hooks if one in AT_ENDS]
    told = f"its own hooks there are {', '.join(own)}" if own else "it has no hook of its own at the end of an epoch"
    steps = "".join(f"; {one} does nothing" for one in framework.empty)
    waits = sum(one.timing.count for one in main.calls if one.what == SYNCHRONIZE)
    synchronized = f"{many(waits, 'call')} of torch.cuda.synchronize" if waits else "no call of torch.cuda.synchronize"
    return [f"the model {framework.module}: {told}{steps}; {synchronized} by the training"]


# What a slow or stuck run is often blamed on, and what costs it next to nothing: measured, and told once.
ENOUGH = 10  # calls
APART = ("wandb.init", "wandb.finish")  # before and after training


def acquitted(case: Case, findings: list[Finding]) -> list[str]:
    """Of a run that is slow or stuck for another reason, or for none that is known."""
    roots = [one for one in findings if one.role == "root"]
    holds = any(one.symptom in (Symptom.SLOW.value, Symptom.STUCK.value) for one in roots)
    if not (holds or standstills(case)):
        return []
    blamed = {one.subject.kind for one in roots if one.subject is not None}
    hooks = cleared(case, roots) if "callback" not in blamed else []
    return hooks + (_loggers(case) if "logger" not in blamed else [])


def _loggers(case: Case) -> list[str]:
    """One line for each library."""
    found: dict[str, str] = {}
    for main in case.mains:
        calls: dict[str, list[Call]] = {}
        for one in main.calls:
            if one.what == LOGGER and one.name not in APART:
                calls.setdefault(library(one.name), []).append(one)
        for name, own in calls.items():
            line = _calls_line(case, main, name, own)
            if line:
                found.setdefault(name, line)
    return list(found.values())


def _calls_line(case: Case, main: Process, name: str, calls: list[Call]) -> str:
    count = sum(one.timing.count for one in calls)
    spent = sum(one.timing.total for one in calls)
    ran = lasted(main)
    if count < ENOUGH or spent > LITTLE * ran or any(one.since is not None for one in calls):
        return ""
    mode = next((one.mode for one in reversed(main.loggers) if one.name == name), "")
    told = f"{name} ({mode})" if mode else name
    text = (
        f"{told} is not the cause: {many(count, 'call')} took {duration(spent / count)} each, {duration(spent)} in all"
    )
    text += f", {percent(spent / ran)} of the run"
    return f"{text}. To see for yourself: {without_wandb(case)}" if name == "wandb" else text


# A standstill whose cause no rule knows: who is blocked where, for how long, and what would settle it.
MANY = 4  # ranks that are told one by one


def unsettled(case: Case) -> list[str]:
    """One line for each rank without progress, and one on how to find out more; or that nothing of it was seen."""
    still = standstills(case)
    if not still:
        return [one for one in [nothing_of_it(case)] if one]
    told = [_standstill_line(case, one) for one in still[:MANY]]
    told += [f"{len(still) - MANY} more ranks make no progress"] if len(still) > MANY else []
    return [*told, f"To settle it: {_how(still[0], known=recorded(case, still[0].seen) is not None)}."]


def _standstill_line(case: Case, one: Standstill) -> str:
    name = who(one.seen)[:1].upper() + who(one.seen)[1:]
    stack = main_stack(case, one.seen.pid)
    spins = stack is not None and moves_itself(one.seen, stack)
    inside = "computing, with nothing to show for it" if spins else waits_in(one.seen.main_task)
    what = inside if one.doing == OWN else one.doing if one.doing == GPU else f"{one.doing}, {inside}"
    at = f" at {short(one.where)} ({one.where.function})" if one.where is not None else ""
    waits = f"; it may be waiting for {one.awaits}" if one.awaits and one.doing != GPU else ""
    return f"{name} has made no progress for {duration(one.seconds)}{at}: {what}{waits}."


def _how(one: Standstill, *, known: bool) -> str:
    again = f"look again in a minute (unstuck why {one.seen.pid})"
    if one.awaits == PERSON:
        return "answer the prompt or leave the debugger"
    if one.awaits == SERVER:
        return f"see whether that server answers anybody else, or {again}"
    if one.awaits == DEVICE:
        return again if known else f"{again}; a run under `unstuck run` also tells which collective each rank waits in"
    if one.awaits == STORAGE:
        return f"read from that storage by hand, with a time limit, or {again}"
    return f"{again}, or sample it: unstuck why {one.seen.pid} --seconds 10"
