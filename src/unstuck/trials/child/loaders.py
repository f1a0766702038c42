"""Makes a DataLoader of what a target gave, the same loader again with other settings, and says what it is like."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.sampler import RandomSampler

from .request import Refused

GIVES = "return a DataLoader, a Dataset or a LightningDataModule"
DEFAULT_BATCH, DEFAULT_WORKERS = 8, 2  # for a Dataset alone, unless --batch and --workers say otherwise
PLAIN = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "DistributedSampler", "WeightedRandomSampler")


def as_loader(thing: Any, name: str, options: dict[str, Any]) -> tuple[Any, str]:
    """The loader, with the wishes of the command line in it, and what it was made of."""
    loader, gave = _found(thing, name, options)
    wishes = {key: options[key] for key in ("batch_size", "num_workers", "prefetch_factor") if key in options}
    return (rebuilt(loader, **wishes) if wishes else loader), gave


def rebuilt(loader: Any, **changes: Any) -> Any:
    """The same loader with other settings. What cannot go with them is left out."""
    kept: dict[str, Any] = {
        name: getattr(loader, name)
        for name in ("num_workers", "pin_memory", "timeout", "worker_init_fn", "generator", "persistent_workers",
                     "prefetch_factor", "multiprocessing_context", "collate_fn", "in_order")
        if hasattr(loader, name)
    }  # fmt: skip
    kept |= {name: value for name, value in changes.items() if name in kept or name == "dataset"}
    if not kept["num_workers"]:
        kept |= {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None, "timeout": 0}
    dataset = kept.pop("dataset", loader.dataset)
    return _type_of(loader)(dataset, **kept, **_drawing(loader, dataset, changes))


def described(loader: Any) -> dict[str, Any]:
    """As the model's Loader has it."""
    context = getattr(loader, "multiprocessing_context", None)
    dataset = loader.dataset
    iterable = isinstance(dataset, IterableDataset)
    return {
        "number": 0,
        "type": type(loader).__name__,
        "dataset": type(dataset).__name__,
        "iterable": iterable,
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "drop_last": bool(loader.drop_last),
        "shuffle": not iterable and isinstance(loader.sampler, RandomSampler),
        "pin_memory": bool(loader.pin_memory),
        "in_order": getattr(loader, "in_order", True),
        "timeout": float(loader.timeout),
        "sampler": None if iterable else type(loader.sampler).__name__,
        "batch_sampler": type(loader.batch_sampler).__name__ if loader.batch_sampler is not None else None,
        "collate_fn": getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__),
        "context": context.get_start_method() if context is not None else None,
        "dataset_length": length_of(dataset),
        "length": length_of(loader),
    }


def length_of(thing: Any) -> int | None:
    try:
        return len(thing)
    except (TypeError, NotImplementedError):
        return None


def sample_keys(loader: Any, count: int, wanted: list[Any] | None = None) -> list[Any]:
    """Of a dataset with indices. A sampler of the user's own may give other things than numbers: then its first."""
    if wanted:
        return wanted[:count]
    length = length_of(loader.dataset)
    if length is None or not _is_plain(loader):
        return list(islice(_drawn(loader), count))
    between = random.Random(0).sample(range(length), min(count, length))  # noqa: S311  (the same ones every time)
    ends = [0, length - 1] if length > 1 else [0][:length]
    rest = [one for one in between if one not in ends]
    return [*ends[:1], *rest[: max(count - 2, 0)], *ends[1:]][: max(count, 1)]


def is_stream(dataset: Any) -> bool:
    return isinstance(dataset, IterableDataset)


def is_batched(loader: Any) -> bool:
    """The DataLoader puts samples together; else the dataset gives whole batches, or single samples."""
    return loader.batch_sampler is not None


def batch_size(loader: Any) -> int | None:
    """As it is set; of a batch sampler of the user's own, as long as its first batch is."""
    size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
    if isinstance(size, int) or loader.batch_sampler is None:
        return size if isinstance(size, int) else None
    first = next(iter(loader.batch_sampler), ())
    return len(first) if hasattr(first, "__len__") else None


def shares_at_once(loader: Any) -> bool:
    """torch's own collate function puts a worker's batch into shared memory directly; others make it twice."""
    function = loader.collate_fn
    own = getattr(function, "__module__", "") or ""
    return getattr(function, "__name__", "") == "default_collate" and own.startswith("torch.")


def _found(thing: Any, name: str, options: dict[str, Any]) -> tuple[Any, str]:
    if isinstance(thing, DataLoader):
        return thing, type(thing).__name__
    if hasattr(thing, "train_dataloader") and hasattr(thing, "setup"):
        return _of_module(thing, name), "LightningDataModule"
    inner = getattr(thing, "pipeline", None)
    if isinstance(inner, list) and inner and isinstance(inner[0], DataLoader):
        return inner[0], type(thing).__name__  # webdataset's WebLoader: stages behind a DataLoader
    if isinstance(thing, (Dataset, IterableDataset)) or _like_a_dataset(thing):
        return _of_dataset(thing, options), type(thing).__name__
    raise Refused(f"{name} returns {_described(thing)}", GIVES)


def _of_module(module: Any, name: str) -> Any:
    module.prepare_data()
    module.setup("fit")
    loader = module.train_dataloader()
    if isinstance(loader, DataLoader):
        return loader
    raise Refused(f"train_dataloader() of {name} returns {_described(loader)}", "one DataLoader can be tried at a time")


def _like_a_dataset(thing: Any) -> bool:
    """Libraries have datasets that are none of torch's: Hugging Face's, a list of samples."""
    kinds = (str, bytes, dict, tuple, set)
    return (
        not isinstance(thing, (*kinds, type))
        and hasattr(thing, "__getitem__")
        and hasattr(thing, "__len__")
        and not _holds_loaders(thing)
    )


def _holds_loaders(thing: Any) -> bool:
    return isinstance(thing, list) and (not thing or any(isinstance(one, (DataLoader, Dataset)) for one in thing))


def _of_dataset(dataset: Any, options: dict[str, Any]) -> Any:
    workers = options.get("num_workers", DEFAULT_WORKERS)
    more = {"prefetch_factor": options["prefetch_factor"]} if workers and "prefetch_factor" in options else {}
    return DataLoader(dataset, batch_size=options.get("batch_size", DEFAULT_BATCH), num_workers=workers, **more)


def _described(thing: Any) -> str:
    if thing is None:
        return "nothing (None)"
    if isinstance(thing, (tuple, list, dict)):
        parts = thing.values() if isinstance(thing, dict) else thing
        inner = ", ".join(sorted({type(one).__name__ for one in parts}))
        return f"a {type(thing).__name__} of {len(thing)} ({inner})" if inner else f"an empty {type(thing).__name__}"
    return f"an object of type {type(thing).__name__}"


def _type_of(loader: Any) -> Any:
    """A subclass may have a constructor of its own: torch's and torchdata's are known."""
    return type(loader) if type(loader).__name__ == "StatefulDataLoader" else DataLoader


def _drawing(loader: Any, dataset: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Who draws the indices, and how many make a batch."""
    size = changes.get("batch_size", loader.batch_size)
    if isinstance(dataset, IterableDataset):
        return {"batch_size": size, **({"drop_last": loader.drop_last} if size else {})}
    if "batch_sampler" in changes:
        return {"batch_sampler": changes["batch_sampler"]}
    sampler = changes.get("sampler", loader.sampler)
    own = loader.batch_sampler is not None and type(loader.batch_sampler).__name__ != "BatchSampler"
    if loader.batch_size is None and (own or loader.batch_sampler is not None) and "sampler" not in changes:
        return {"batch_sampler": loader.batch_sampler}
    return {"batch_size": size, "sampler": sampler, **({"drop_last": loader.drop_last} if size else {})}


def _is_plain(loader: Any) -> bool:
    batches = loader.batch_sampler
    own = batches is not None and type(batches).__name__ != "BatchSampler"
    return not own and type(loader.sampler).__name__ in PLAIN


def _drawn(loader: Any) -> Iterator[Any]:
    batches = loader.batch_sampler
    return chain.from_iterable(batches) if batches is not None else iter(loader.sampler)
