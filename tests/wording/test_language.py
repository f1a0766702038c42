# ruff: noqa: E501, RUF001  (punctuation is Chinese)
"""What a person reads in another language: complete, not stale, and nothing that a program reads changes."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import os
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from kept import report_of
from unstuck.cli.main import COMMANDS, Parser, main
from unstuck.evidence import Run
from unstuck.evidence.finding import Certainty, Symptom
from unstuck.logs.files import Settings
from unstuck.logs.folder import LogFolder
from unstuck.trials.doctor.ladder import LADDER
from unstuck.views import budgets, checks, trials, tuning
from unstuck.views.as_json import render
from unstuck.views.block import LABELS
from unstuck.views.terminal import show
from unstuck.watching.fence import Fence, speak
from unstuck.watching.watcher import Logged
from unstuck.wording import zh
from unstuck.wording.language import FIELD, VARIABLES, language, word
from unstuck.wording.text import many

HERE = Path(__file__).parents[1]
SRC = HERE.parent / "src" / "unstuck"
CHINESE = re.compile("[\u4e00-\u9fff]")
NAMES = {"rank", "step", "prefetch", "samples/s", "±", "pid", "", "memory", "/dev/shm"}  # the same in both
READ_BY_PROGRAMS = ("logs", "inside", "recordings", "evidence", "analysis", "rules", "reporting", "checking")

# One for each shape: a sentence that is said, and what it becomes.
EXAMPLES = {
    "850 µs after the start": "启动后 850 µs",
    "main thread of rank 3": "rank 3 的主线程",
    "workers of rank 0": "rank 0 的 worker",
    "no progress for 2 min 5 s": "已 2 min 5 s 没有进展",
    "12 rules": "12 条规则",
    "3.4 s of recording": "记录耗时 3.4 s",
    "0.07 % of the loop": "占循环的 0.07 %",
    "6.5 µs per step": "每个 step 6.5 µs",
    "1e+03 µs per sample": "每个样本 1e+03 µs",
    "3.0 MiB on disk": "磁盘占用 3.0 MiB",
    "计算 (70 % on a CPU core)": "计算（70 % 的时间在 CPU 核上）",
    "12 ms each": "每次 12 ms",
    "at most 9 h 2 min": "最长 9 h 2 min",
    "slowest 7.jpg with 1.2 s": "最慢的是 7.jpg，1.2 s",
    "no progress for 10 s: rank 0: in all_reduce": "已 10 s 没有进展：rank 0: in all_reduce",
    "no progress for 10 s, and looking for the cause failed (Too many open files)": (
        "已 10 s 没有进展，且查找原因失败（Too many open files）"
    ),
    "no progress, and no cause is known: unstuck why runs/a": "没有进展，原因未知：unstuck why runs/a",
    "no batch or step in 60 s: computing": "60 s 内没有 batch 或 step：computing",
    "the run goes on after 42 s": "停滞 42 s 后恢复运行",
    "the run has ended; the cause is above (rank-died): unstuck why runs/a": (
        "运行已结束，原因见上文（rank-died）：unstuck why runs/a"
    ),
    "pid 7 runs torch but is not recorded (python -I, -E or -S, a container or a cleared environment keeps unstuck "
    "out): it is watched from outside only": (
        "pid 7 运行了 torch 但没有被记录（python -I、-E、-S，容器，或被清空的环境变量使 unstuck 无法进入）：只能从外部观察"
    ),
    "already recorded by an outer `unstuck run`, which reports its findings: unstuck why runs/a": (
        "外层的 `unstuck run` 已在记录，由它给出诊断：unstuck why runs/a"
    ),
    "the watcher ended early (signal 9); the run is unaffected: unstuck why runs/a": (
        "监视进程提前结束（signal 9）；训练不受影响：unstuck why runs/a"
    ),
    "the watcher failed (OSError: no)": "监视进程出错（OSError: no）",
    "no verdict within 60 s: unstuck why runs/a": "60 s 内没有得出诊断：unstuck why runs/a",
    "writing the logs failed (OSError: no); the command is unaffected; details in runs/a/errors.log": (
        "writing the logs 失败（OSError: no）；命令不受影响；详见 runs/a/errors.log"
    ),
    "out.json could not be written (No space left on device)": "无法写入 out.json（No space left on device）",
    "UNSTUCK_LOG_EVERY is 'x'; the default is used": "UNSTUCK_LOG_EVERY is 'x'；使用默认值",
    "--on-finding could not be run (No such file)": "--on-finding 的命令无法运行（No such file）",
    "--on-finding is still running (pid 12)": "--on-finding 的命令仍在运行（pid 12）",
    "trainer: command not found": "trainer：找不到该命令",
    "./train.py: permission denied": "./train.py：没有执行权限",
    "removed 2 old runs from unstuck-runs (the newest 50 are kept): a, b": (
        "已从 unstuck-runs 删除 2 个旧记录（runs；保留最新的 50 个）：a, b"
    ),
    "unstuck: no logs in runs/a/logs (File exists); see `ls -la runs/a/logs`; the run goes on without them": (
        "unstuck: 无法在 runs/a/logs 中写日志（File exists）；请查看 `ls -la runs/a/logs`；训练继续，但没有日志"
    ),
    "memory-forecast: It grows. Fix: Stop. (unstuck why runs/a)": (
        "memory-forecast：It grows. 修复：Stop.（unstuck why runs/a）"
    ),
    "looking at pid 42": "正在查看 pid 42",
    "looking at 1 process": "正在查看 1 个进程",
    "looking at 3 processes": "正在查看 3 个进程",
    "no progress; watching for another 8 s to tell stuck from slow": "没有进展；再观察 8 s 以区分卡死与缓慢",
    "watching for 3 s what computes without progress": "观察 3 s：正在计算但没有进展的进程",
    "still no progress; watching for another 10 s to tell an endless loop from a long computation": (
        "仍没有进展；再观察 10 s 以区分死循环与长时间计算"
    ),
    "sampling where the time goes, 3 of 10 s": "正在采样时间分布，3 / 10 s",
    "no data for 4.1 s": "已 4.1 s 没有读到数据",
    "1 min 50 s left": "剩余 1 min 50 s",
    "1,024 bad": "1,024 个损坏",
    "measuring num_workers=4; 1 setting measured, at most 30 s left": (
        "正在测量 num_workers=4；已测 1 组设置，最多还需 30 s"
    ),
    "measuring num_workers=4; 3 settings measured, at most 30 s left": (
        "正在测量 num_workers=4；已测 3 组设置，最多还需 30 s"
    ),
    "importing and reading some data; 1 setting measured, at most 60 s left": (
        "正在 import 并读取部分数据；已测 1 组设置，最多还需 60 s"
    ),
    "importing and reading some data; 0 settings measured, at most 60 s left": (
        "正在 import 并读取部分数据；已测 0 组设置，最多还需 60 s"
    ),
    "Traceback of no-workers": "no-workers 的 traceback",
    "1,400 needed": "需要 1,400",
    "needs 1,400 samples/s": "需要 1,400 samples/s",
    "1 setting in 8 s, of 65 in the whole grid": "8 s 内测了 1 组设置（完整网格共 65 组）",
    "9 settings in 50 s, of 65 in the whole grid": "50 s 内测了 9 组设置（完整网格共 65 组）",
    "8 ranks on this node": "本节点 8 个 rank",
    "1 rank": "1 个 rank",
    "8 ranks": "8 个 rank",
    "1 worker": "1 个 worker",
    "0 workers": "0 个 worker",
    "batches of 32": "batch 大小 32",
    "1 sample loaded": "加载了 1 个样本",
    "5 samples loaded": "加载了 5 个样本",
    "2.5 times": "2.5 倍",
    "1.2 GiB of it in /dev/shm": "其中 1.2 GiB 在 /dev/shm",
    "line 12": "第 12 行",
    "row 1,200": "第 1,200 行",
    "byte 4,096": "第 4,096 字节",
    "1 more place": "另有 1 处",
    "2 more places": "另有 2 处",
    "and 1 more file": "另有 1 个文件",
    "and 9 more files": "另有 9 个文件",
    "1 file": "1 个文件",
    "128 files": "128 个文件",
    "1 sample": "1 个样本",
    "1,280,000 samples": "1,280,000 个样本",
    "64 GiB read in 2 min 3 s": "2 min 3 s 内读取 64 GiB",
    "--sample 5 % read that part of the files completely: the others are unknown": (
        "--sample 5 %：这部分文件已完整读取，其余未知"
    ),
    "--sample 5 % read 1 file completely, and only the ends of 19: what is between is unknown": (
        "--sample 5 %：完整读取了 1 个文件，另外 19 个只读了首尾，中间未知"
    ),
    "--sample 5 % read 6 files completely, and only the ends of 122: what is between is unknown": (
        "--sample 5 %：完整读取了 6 个文件，另外 122 个只读了首尾，中间未知"
    ),
    "3 files, such as data/README": "3 个文件，例如 data/README",
    "1 more file, for 1 other reason": "另有 1 个文件，1 种其他原因",
    "4 more files, for 1 other reason": "另有 4 个文件，1 种其他原因",
    "4 more files, for 2 other reasons": "另有 4 个文件，2 种其他原因",
    "1 file without a fault of their own": "1 个文件自身没有问题",
    "3 files without a fault of their own": "3 个文件自身没有问题",
    "1 other file without a fault of their own": "其余 1 个文件自身没有问题",
    "125 other files without a fault of their own": "其余 125 个文件自身没有问题",
    "filter for webdataset": "适用于 webdataset 的过滤器",
    "recorded in unstuck-runs/a": "记录于 unstuck-runs/a",
}


@pytest.fixture
def speaks(monkeypatch):
    """Sets these variables, and no other that says which language is spoken."""

    def choose(**variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return choose


def report(rule="worker-python-exception", file="found"):
    return report_of(rule, file)


def shown(given, *, verbose=False):
    out = io.StringIO()
    show(given, Console(file=out, width=180, highlight=False, color_system=None), "unstuck-runs/a", verbose=verbose)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def printed(capsys, *words):
    """What a command prints."""
    with contextlib.suppress(SystemExit):  # --help
        main(list(words))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("variables", "spoken"),
    [
        ({"UNSTUCK_LANG": "zh"}, "zh"),
        ({"UNSTUCK_LANG": "zh-CN"}, "zh"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US.UTF-8"}, "zh"),
        ({"UNSTUCK_LANG": "en", "LANG": "zh_CN.UTF-8", "LC_ALL": "zh_CN.UTF-8"}, "en"),
        ({"UNSTUCK_LANG": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"UNSTUCK_LANG": "klingon"}, "en"),
        ({"UNSTUCK_LANG": "fr", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_the_one_asked_for_or_that_of_the_locale(speaks, variables, spoken):
    speaks(**variables)

    assert language() == spoken
    assert word("stuck") == {"en": "stuck", "zh": "卡死"}[spoken]


@pytest.mark.parametrize("variables", [{"UNSTUCK_LANG": "zh"}, {"LANG": "zh_CN.UTF-8"}])
def test_a_block_has_chinese_labels_and_states_and_english_sentences(speaks, variables):
    speaks(**variables)
    given = report()

    lines = shown(given)

    assert lines[0].startswith("✗ 崩溃[worker-python-exception]  ")
    assert lines[0].endswith("  确定")
    assert given.findings[0].cause.rstrip(".") in lines[0]
    assert [name for name in map(label_of, lines[2:]) if name] == ["修复", "依据", "报错", "帮助", "运行"]
    assert "启动后 " in lines[1]


def label_of(line: str) -> str:
    return line[2:].partition("  ")[0].strip() if line.startswith("  ") and line[2:3].strip() else ""


@pytest.mark.parametrize("code", ["en", "zh"])
def test_the_texts_of_a_block_begin_in_one_column(speaks, code):
    speaks(UNSTUCK_LANG=code)
    width = max(cell_len(word(name)) for name in LABELS)
    words = {word(name) for name in LABELS}

    rows = [line for line in shown(report(), verbose=True)[2:] if label_of(line) in words]

    starts = {cell_len(line) - cell_len(line[2 + len(label_of(line)) :].lstrip()) for line in rows}
    assert len(rows) >= 5
    assert starts == {2 + width + 2}


def test_a_healthy_run_is_one_chinese_line(speaks):
    speaks(UNSTUCK_LANG="zh")

    assert shown(report(file="clear"))[0].startswith("✓ 正常  ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_is_chinese(speaks, capsys, command):
    speaks(UNSTUCK_LANG="zh")

    said = printed(capsys, command, "--help")

    first, *_ = (line for line in said.splitlines()[1:] if CHINESE.search(line))
    assert first == word((import_module(f"unstuck.cli.{command}").__doc__ or "").strip()).splitlines()[0]
    assert "选项:" in said
    assert "显示本帮助并退出" in said


def test_a_chinese_locale_gives_a_chinese_overview_and_help_in_a_process_of_its_own(unstuck):
    others = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    chinese = {**others, "LANG": "zh_CN.UTF-8", "PYTHONUTF8": "1"}

    overview = unstuck("--help", env=chinese, encoding="utf-8")
    page = unstuck("run", "--help", env=chinese, encoding="utf-8")
    english = unstuck("run", "--help", env={**chinese, "UNSTUCK_LANG": "en"}, encoding="utf-8")

    assert (overview.stderr, page.stderr, english.stderr) == ("", "", "")
    assert "unstuck why      训练为什么卡死" in overview.stdout
    assert "运行命令并记录，说明出了什么问题。" in page.stdout
    assert not CHINESE.search(english.stdout)
    assert "Run a command, record it, and say what went wrong." in english.stdout


def test_json_is_the_same_in_every_language(speaks, capsys, tmp_path):
    given = report()
    (tmp_path / "report.json").write_text(render(given))
    told = {}
    for code in ("en", "zh"):
        speaks(UNSTUCK_LANG=code)
        told[code] = (
            render(msgspec.structs.replace(given, evidence=None)),
            printed(capsys, "why", str(tmp_path / "report.json"), "--json"),
            printed(capsys, "explain", "worker-oom-killed", "--json"),
        )

    assert all(told["en"])
    assert told["en"] == told["zh"]


class Aloud:
    """Speaks as the tellers of the watcher do."""

    def say(self, line):
        speak(line)


def test_logs_are_the_same_in_every_language(speaks, capfd, tmp_path):
    said = "no progress for 10 s: waiting for a batch"
    written, heard = {}, {}
    for code in ("en", "zh"):
        speaks(UNSTUCK_LANG=code)
        run = Run(id="a", command=["python", "train.py"], started=1e9, host="vm")
        logs = LogFolder(str(tmp_path / code), run, Settings(), 1e9, speak)
        Logged(Aloud(), logs, Fence(tmp_path, speak)).say(said)
        logs.report(report(), 1e9 + 20)
        logs.close(1e9 + 30)
        text = "".join(path.read_text() for path in sorted((tmp_path / code).glob("*.log")))
        written[code] = [line.partition("] ")[2] for line in text.replace(str(tmp_path / code), "").splitlines()]
        heard[code] = capfd.readouterr().err

    assert any(said in line for line in written["en"])
    assert written["en"] == written["zh"]
    assert said in heard["en"]
    assert "已 10 s 没有进展：waiting for a batch" in heard["zh"]


def test_what_programs_read_knows_nothing_of_languages():
    files = [path for folder in READ_BY_PROGRAMS for path in (SRC / folder).rglob("*.py")]

    assert [path for path in files if "wording.language" in path.read_text()] == []


# Complete.


@cache
def parsed() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in SRC.rglob("*.py") if path.name not in ("zh.py", "zh_help.py")}


@cache
def constants() -> set[str]:
    """Every text in the source; docstrings as they are shown."""
    found = {
        node.value
        for module in parsed().values()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return found | {text.strip() for text in found}


@cache
def helps() -> set[str]:
    """Every text that argparse shows, as it is built."""
    found = set()
    for command in COMMANDS:
        parser = Parser(prog="unstuck")
        import_module(f"unstuck.cli.{command}").add_arguments(parser)
        found |= {action.help for action in parser._actions if action.help}
        found |= {group.title for group in parser._action_groups if group.title}
    return found


def given_to_word() -> Iterator[ast.expr]:
    """What stands as an argument of `word(…)`, both sides of a condition."""
    for module in parsed().values():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "word" and node.args:
                yield from sides(node.args[0])


def sides(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from sides(node.body)
        yield from sides(node.orelse)
    else:
        yield node


def sentences(node: ast.JoinedStr) -> Iterator[str]:
    """It with numbers, durations, sizes and shares in its fields."""
    return ("".join(chosen) for chosen in itertools.product(*map(options, node.values)))


def options(part: ast.expr) -> tuple[str, ...]:
    if isinstance(part, ast.Constant):
        return (str(part.value),)
    value = part.value if isinstance(part, ast.FormattedValue) else part
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "many":
        noun = value.args[1]
        return (many(3, noun.value),) if isinstance(noun, ast.Constant) else (many(3, "file"), many(3, "other file"))
    if isinstance(value, ast.IfExp):
        return tuple(one.value for one in sides(value) if isinstance(one, ast.Constant))
    return (
        "3",
        "3 s",
        "3 MiB",
        "3 %",
        "main thread",
        "7.jpg with 3 s",
        "only the ends of 3: what is between is unknown",
    )


def test_every_text_that_is_put_into_words_has_a_translation():
    texts = [node.value for node in given_to_word() if isinstance(node, ast.Constant)]

    assert len(texts) > 50
    assert sorted({text for text in texts if text not in zh.WORDS and text not in NAMES}) == []


def test_every_sentence_that_is_put_into_words_has_a_translation(speaks):
    speaks(UNSTUCK_LANG="zh")
    nodes = [node for node in given_to_word() if isinstance(node, ast.JoinedStr)]

    assert len(nodes) > 30
    assert [
        ast.unparse(node) for node in nodes if not any(CHINESE.search(word(text)) for text in sentences(node))
    ] == []


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(LABELS, id="labels"),
        pytest.param([*(one.value for one in (*Symptom, *Certainty)), "healthy", "unknown"], id="states"),
        pytest.param([step.title for step in LADDER], id="steps of doctor"),
        pytest.param(COMMANDS.values(), id="commands"),
        pytest.param(checks.WORDS.values(), id="faults of files"),
        pytest.param([*budgets.COLOURS, *budgets.WHOSE.values()], id="budget"),
        pytest.param([why for _, why in trials.NEXT], id="next"),
        pytest.param(tuning.FROM.values(), id="where data came from"),
    ],
)
def test_there_is_a_translation_of_all(texts):
    assert [text for text in texts if text not in zh.WORDS] == []


def test_every_help_has_a_translation():
    pages = {(import_module(f"unstuck.cli.{command}").__doc__ or "").strip() for command in COMMANDS}

    assert sorted(text for text in helps() | pages if text not in zh.WORDS) == []


# Nothing stale.


def test_every_whole_text_is_still_said():
    whole = [key for key in zh.WORDS if not FIELD.search(key)]

    assert [key for key in whole if key not in constants() and key not in helps()] == []


def test_every_shape_has_an_example(speaks):
    speaks(UNSTUCK_LANG="zh")
    shapes = [key for key in zh.WORDS if FIELD.search(key)]

    assert {text: word(text) for text in EXAMPLES} == EXAMPLES
    assert len(set(EXAMPLES)) == len(shapes)
    assert {shape for shape in shapes for text in EXAMPLES if made_by(shape, text)} == set(shapes)


def made_by(shape: str, text: str) -> bool:
    """It is the example of this very shape: there is a translation that only this one gives."""
    pieces = FIELD.split(shape)[::2]
    return re.fullmatch("(.+?)".join(map(re.escape, pieces)), text) is not None


def test_the_words_of_every_shape_are_still_in_the_source():
    said = "\n".join(path.read_text() for path in parsed())
    words = {one for key in zh.WORDS if FIELD.search(key) for one in re.findall("[A-Za-z]{4,}", FIELD.sub(" ", key))}

    assert sorted(one for one in words if not any(stem in said for stem in (one, one[:-1], one[:-2]))) == []


def test_a_translation_has_the_fields_of_its_key():
    assert [key for key, own in zh.WORDS.items() if sorted(FIELD.findall(key)) != sorted(FIELD.findall(own))] == []


def test_no_key_is_in_two_tables():
    assert sum(map(len, zh.TABLES)) == len(zh.WORDS)


def test_options_commands_and_examples_stay_as_they_are():
    """A name that is typed is the same in both: `--on-stall`, `unstuck why 4242`, `$UNSTUCK_LOG_LEVEL`."""
    typed = re.compile(r"(?<![\w-])--[a-z][\w-]*|\$[A-Z_]+|unstuck-runs(?:/\S+)?|`[^`]+`")

    wrong = {
        key: sorted(set(typed.findall(key)) ^ set(typed.findall(own)))
        for key, own in zh.WORDS.items()
        if set(typed.findall(key)) != set(typed.findall(own))
    }
    assert wrong == {}
