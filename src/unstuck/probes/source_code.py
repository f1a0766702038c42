"""What the endless loop around a line goes over, by the source of the program: `while True: for path in paths: …`.

And whether the line is in a generator.
"""

from __future__ import annotations

import ast
import functools
import os
import stat
from collections.abc import Iterator, Sequence

from ..safe_files import read_plain

EMPTY = ("[]", "()", "{}", "set()", "0")  # as py-spy writes them; a number in `range(n)`
NEVER = "never gone through"
QUICK = ("enumerate", "range", "reversed")
LARGEST = 1 << 20  # bytes of a source file
AWAY = (ast.Yield, ast.YieldFrom, ast.Return, ast.Break, ast.Raise, ast.Await)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef)


def gone_over(file: str, line: int, values: dict[str, str]) -> dict[str, str]:
    """By name, what the inner loops go over, and how it reads if it is empty; "" where it is not known or not empty.

    Only where an outer loop has no other way out, and the line is in none of the inner loops' bodies. Where the value
    cannot be had, a loop variable that has none shows that its loop was never entered: NEVER.
    """
    try:
        return _gone_over(_parsed(file, _changed(file)), line, values)
    except RecursionError:  # code that a program has written, deeper than anybody would
        return {}


def line_at(file: str, line: int, unchanged_since: float) -> str:
    """The line of code as it was when the run began: "" where the file has changed, or is no Python."""
    changed = _changed(file) if file.endswith(".py") and line > 0 else None
    if changed is None or changed > unchanged_since:
        return ""
    try:
        lines = read_plain(file, largest=LARGEST, follow=True).splitlines()
        return lines[line - 1].decode().strip() if line <= len(lines) else ""
    except (OSError, ValueError):
        return ""


def yields(file: str, line: int) -> bool:
    """The innermost function around this line is a generator."""
    inner = _function(file, line)
    return inner is not None and any(isinstance(one, ast.Yield | ast.YieldFrom) for one in _inside(inner))


def repeats(file: str, line: int) -> bool:
    """The line is inside a `while` of the innermost function around it, or of the module where there is none."""
    inner = _function(file, line) or _parsed(file, _changed(file))
    return inner is not None and any(isinstance(one, ast.While) and _around(one, line) for one in _inside(inner))


def _function(file: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    tree = _parsed(file, _changed(file))
    around = [one for one in ast.walk(tree) if isinstance(one, FUNCTIONS) and _around(one, line)] if tree else []
    return max(around, key=lambda one: one.lineno, default=None)


def _gone_over(tree: ast.Module | None, line: int, values: dict[str, str]) -> dict[str, str]:
    loops = [one for one in ast.walk(tree) if isinstance(one, ast.While) and _around(one, line)] if tree else []
    for outer in sorted(loops, key=lambda one: -one.lineno):
        inner = [one for one in _inside(outer) if isinstance(one, ast.For | ast.While)]
        if not inner or any(_in_body(one, line) for one in inner) or _leaves(outer, inner):
            continue
        within = {id(one) for loop in inner for one in _inside(loop)}
        return {name: value for one in inner if id(one) not in within for name, value in _over(one, values).items()}
    return {}


def _over(loop: ast.For | ast.While, values: dict[str, str]) -> dict[str, str]:
    found = {name: values[name] if values.get(name) in EMPTY else "" for name in _names(loop)}
    if any(found.values()) or not found or not _never_entered(loop, values):
        return found
    over = loop.iter if isinstance(loop, ast.For) else loop
    wrapped = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id != "range"
    return {ast.unparse(over.args[0] if wrapped and isinstance(over, ast.Call) else over)[:60]: NEVER}


def _never_entered(loop: ast.For | ast.While, values: dict[str, str]) -> bool:
    """Of a loop over something that gives its first item at once: a list, an attribute, a range."""
    if not isinstance(loop, ast.For) or not values:
        return False
    over, plain = loop.iter, ast.Name | ast.Attribute | ast.Subscript
    if isinstance(over, ast.Call):
        quick = isinstance(over.func, ast.Name) and over.func.id in QUICK
        if not quick or not over.args or not all(isinstance(one, plain | ast.Constant | ast.Call) for one in over.args):
            return False
    elif not isinstance(over, plain):
        return False
    targets = [one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)]
    return bool(targets) and not any(one in values for one in targets)


@functools.lru_cache(maxsize=32)
def _parsed(file: str, changed: float | None) -> ast.Module | None:
    if changed is None:
        return None
    try:
        return ast.parse(read_plain(file, largest=LARGEST, follow=True))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _changed(file: str) -> float | None:
    """None where it is no regular file: nothing else is opened, for a device may act upon that."""
    try:
        seen = os.stat(file)
    except (OSError, ValueError):
        return None
    return seen.st_mtime if stat.S_ISREG(seen.st_mode) else None


def _around(loop: ast.While | ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> bool:
    return loop.lineno <= line <= (loop.end_lineno or loop.lineno)


def _in_body(loop: ast.For | ast.While, line: int) -> bool:
    return loop.body[0].lineno <= line <= (loop.body[-1].end_lineno or 0) and line > loop.lineno


def _inside(loop: ast.AST) -> Iterator[ast.AST]:
    """Without what is inside of functions that are made there."""
    for one in ast.iter_child_nodes(loop):
        if not isinstance(one, SCOPES):
            yield one
            yield from _inside(one)


def _leaves(outer: ast.While, inner: Sequence[ast.AST]) -> bool:
    """There is a way out, or something is handed on, that does not depend on the inner loops."""
    within = {id(one) for loop in inner for one in _inside(loop)}
    return any(isinstance(one, AWAY) and id(one) not in within for one in _inside(outer))


def _names(loop: ast.AST) -> list[str]:
    """What it goes over: `paths`, `self.paths`, also in `enumerate(paths)`, `paths[a:]`, `range(len(paths))`."""
    over = loop.iter if isinstance(loop, ast.For) else loop.test if isinstance(loop, ast.While) else None
    if over is None:
        return []
    if isinstance(over, ast.Call):
        found = [name for one in over.args for name in _plain(one)]
        return found or [ast.unparse(over)[:60]]
    if isinstance(over, ast.Compare):
        return [name for one in (over.left, *over.comparators) if isinstance(one, ast.Call) for name in _plain(one)]
    return _plain(over)


def _plain(one: ast.AST) -> list[str]:
    if isinstance(one, ast.Name | ast.Attribute):
        return [ast.unparse(one)]
    if isinstance(one, ast.Subscript):
        return _plain(one.value)
    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
        return [name for each in one.args for name in _plain(each)]
    return []
