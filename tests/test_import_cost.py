"""What an import costs: `import unstuck` stands in somebody's training script, and `--help` answers at once."""

from __future__ import annotations

import os
import subprocess
import sys

import unstuck

HEAVY = {"torch", "rich", "numpy", "msgspec"}
NEW_MODULES = """
import sys
before = set(sys.modules)
{code}
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that nobody has switched recording on for."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK")}
    return subprocess.run(
        [sys.executable, *arguments], env=variables, capture_output=True, text=True, timeout=120, check=True
    )


def loaded_by(code: str) -> set[str]:
    """Top-level names of the modules that running this code brings in."""
    return set(python("-c", NEW_MODULES.format(code=code)).stdout.split())


def third_party(names: set[str]) -> set[str]:
    return names - sys.stdlib_module_names - {"unstuck", "_unstuck_inside"}


def run_with_import_log(*arguments: str) -> tuple[str, set[str]]:
    """What a command prints, and the top-level names of all it imports."""
    ended = python("-X", "importtime", "-m", "unstuck", *arguments)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines() if "|" in line}
    assert "unstuck" in names, "the import log does not show what was imported"
    return ended.stdout, names


def test_importing_unstuck_loads_nothing_heavy() -> None:
    loaded = loaded_by("import unstuck")
    assert "unstuck" in loaded
    assert loaded & HEAVY == set()


def test_importing_unstuck_loads_no_third_party_package() -> None:
    assert third_party(loaded_by("import unstuck")) == set()


def test_what_user_code_calls_loads_no_third_party_package() -> None:
    loaded = loaded_by("import unstuck; unstuck.stage; unstuck.progress")
    assert "_unstuck_inside" in loaded
    assert third_party(loaded) == set()


def test_calling_stage_and_progress_loads_no_third_party_package() -> None:
    code = "import unstuck\nwith unstuck.stage('decode', item='a.png'): unstuck.progress('rows', 1, 2)"
    assert third_party(loaded_by(code)) == set()


def test_the_version_is_printed_without_torch_or_numpy() -> None:
    printed, names = run_with_import_log("--version")
    assert printed == f"unstuck {unstuck.__version__}\n"
    assert names & {"torch", "numpy"} == set()


def test_the_help_is_printed_without_torch_or_numpy() -> None:
    printed, names = run_with_import_log("--help")
    assert "unstuck run" in printed
    assert names & {"torch", "numpy"} == set()


def test_telling_a_value_and_asking_for_the_log_load_no_third_party_package() -> None:
    assert third_party(loaded_by("import unstuck; unstuck.metric(loss=0.5); unstuck.log_to")) == set()


def test_what_runs_beside_a_training_loads_no_numpy() -> None:
    """Its threads would take the watcher's signals."""
    loaded = loaded_by("import unstuck.logs.writer, unstuck.recordings.boards, unstuck.watching.watcher")
    assert "msgspec" in loaded
    assert "numpy" not in loaded
