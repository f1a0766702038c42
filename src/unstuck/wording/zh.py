# ruff: noqa: E501, RUF001  (one entry is one line; punctuation is Chinese)
"""简体中文: the fixed words of what a person reads, English to Chinese. Cause and fix sentences stay English."""

from .zh_help import DESCRIPTIONS, OPTIONS, OVERVIEW

STATES = {
    "crashed": "崩溃",
    "stuck": "卡死",
    "stopped": "被终止",
    "wrong": "结果有误",
    "leaking": "泄漏",
    "bad data": "数据损坏",
    "waiting": "等待",
    "slow": "缓慢",
    "healthy": "正常",
    "unknown": "未知",
    "certain": "确定",
    "likely": "很可能",
    "possible": "有可能",
}
BLOCK = {
    "fix": "修复",
    "or": "或者",
    "why": "依据",
    "saw": "报错",
    "also": "另外",
    "help": "帮助",
    "run": "运行",
    "limit": "瓶颈",
    "means": "含义",
    "note": "注意",
    "start": "启动",
    "time": "耗时",
    "load": "加载",
    "{time} after the start": "启动后 {time}",
    "Nothing found.": "没有发现问题。",
    "No rule has found a cause. That does not rule one out.": "没有规则找到原因，但这不代表没有问题。",
    "now": "当前",
    "rank": "rank",
    "main thread": "主线程",
    "main thread of rank {rank}": "rank {rank} 的主线程",
    "workers of rank {rank}": "rank {rank} 的 worker",
    "no progress for {time}": "已 {time} 没有进展",
    "not checked": "未检查",
    "needs": "需要",
    "{count} rules": "{count} 条规则",
    "recording cost": "记录开销",
    "{time} of recording": "记录耗时 {time}",
    "{number} % of the loop": "占循环的 {number} %",
    "{number} µs per step": "每个 step {number} µs",
    "{number} µs per sample": "每个样本 {number} µs",
    "{size} on disk": "磁盘占用 {size}",
}
LOADING = {
    "interpreter": "解释器",
    "imports": "import",
    "model": "模型",
    "workers": "worker",
    "first sample": "首个样本",
    "first batch": "首个 batch",
    "first step": "首个 step",
    "own code": "用户代码",
    "and goes on": "仍在进行",
    "computing": "计算",
    "reading": "读取",
    "waiting for a CPU core": "等待 CPU 核",
    "{kind} ({share} on a CPU core)": "{kind}（{share} 的时间在 CPU 核上）",
    "{time} each": "每次 {time}",
    "at most {time}": "最长 {time}",
    "slowest {item} with {time}": "最慢的是 {item}，{time}",
}
EXPLAIN = {
    "This text may mean:": "这段报错可能对应：",
    "`unstuck run` tells which one it is. To read about one: unstuck explain RULE": (
        "用 `unstuck run` 运行即可知道是哪一条；查看某条规则：unstuck explain RULE"
    ),
}
# Lines on stderr, while a run goes on and at its end.
SPOKEN = {
    "no progress for {seconds} s: {what}": "已 {seconds} s 没有进展：{what}",
    "no progress for {seconds} s, and looking for the cause failed ({error})": (
        "已 {seconds} s 没有进展，且查找原因失败（{error}）"
    ),
    "no progress, and no cause is known: {command}": "没有进展，原因未知：{command}",
    "no batch or step in {seconds} s: {what}": "{seconds} s 内没有 batch 或 step：{what}",
    "the run goes on after {seconds} s": "停滞 {seconds} s 后恢复运行",
    "the run has ended; the cause is above ({rule}): {command}": "运行已结束，原因见上文（{rule}）：{command}",
    "pid {pid} runs torch but is not recorded (python -I, -E or -S, a container or a cleared environment keeps unstuck "
    "out): it is watched from outside only": (
        "pid {pid} 运行了 torch 但没有被记录（python -I、-E、-S，容器，或被清空的环境变量使 unstuck 无法进入）：只能从外部观察"
    ),
    "already recorded by an outer `unstuck run`, which reports its findings: {command}": (
        "外层的 `unstuck run` 已在记录，由它给出诊断：{command}"
    ),
    "the watcher ended early ({how}); the run is unaffected: {command}": (
        "监视进程提前结束（{how}）；训练不受影响：{command}"
    ),
    "the watcher failed ({error})": "监视进程出错（{error}）",
    "no verdict within {seconds} s: {command}": "{seconds} s 内没有得出诊断：{command}",
    "{part} failed ({error}); the command is unaffected; details in {file}": (
        "{part} 失败（{error}）；命令不受影响；详见 {file}"
    ),
    "{file} could not be written ({error})": "无法写入 {file}（{error}）",
    "{problem}; the default is used": "{problem}；使用默认值",
    "--on-finding could not be run ({error})": "--on-finding 的命令无法运行（{error}）",
    "--on-finding is still running (pid {pid})": "--on-finding 的命令仍在运行（pid {pid}）",
    "{command}: command not found": "{command}：找不到该命令",
    "{command}: permission denied": "{command}：没有执行权限",
    "removed {count} old {kind} from {base} (the newest {kept} are kept): {names}": (
        "已从 {base} 删除 {count} 个旧记录（{kind}；保留最新的 {kept} 个）：{names}"
    ),
    "unstuck: no logs in {folder} ({error}); see `{command}`; the run goes on without them": (
        "unstuck: 无法在 {folder} 中写日志（{error}）；请查看 `{command}`；训练继续，但没有日志"
    ),
    "{rule}: {cause} Fix: {remedy} (unstuck why {folder})": "{rule}：{cause} 修复：{remedy}（unstuck why {folder}）",
    "The watcher was killed with the run. Judged afterwards:": "监视进程与训练一起被杀死，以下为事后诊断：",
}
PROGRESS = {
    "looking at pid {pid}": "正在查看 pid {pid}",
    "looking at {count} process": "正在查看 {count} 个进程",
    "looking at {count} processes": "正在查看 {count} 个进程",
    "reading native stacks": "正在读取 native 调用栈",
    "no progress; watching for another {seconds} s to tell stuck from slow": (
        "没有进展；再观察 {seconds} s 以区分卡死与缓慢"
    ),
    "watching for {seconds} s what computes without progress": "观察 {seconds} s：正在计算但没有进展的进程",
    "still no progress; watching for another {seconds} s to tell an endless loop from a long computation": (
        "仍没有进展；再观察 {seconds} s 以区分死循环与长时间计算"
    ),
    "sampling where the time goes, {done} of {seconds} s": "正在采样时间分布，{done} / {seconds} s",
    "checking": "检查中",
    "of": "/",
    "files": "个文件",
    "no data for {time}": "已 {time} 没有读到数据",
    "{time} left": "剩余 {time}",
    "{count} bad": "{count} 个损坏",
    "measuring {what}; {count} setting measured, at most {seconds} s left": (
        "正在测量 {what}；已测 {count} 组设置，最多还需 {seconds} s"
    ),
    "measuring {what}; {count} settings measured, at most {seconds} s left": (
        "正在测量 {what}；已测 {count} 组设置，最多还需 {seconds} s"
    ),
    "importing and reading some data; {count} setting measured, at most {seconds} s left": (
        "正在 import 并读取部分数据；已测 {count} 组设置，最多还需 {seconds} s"
    ),
    "importing and reading some data; {count} settings measured, at most {seconds} s left": (
        "正在 import 并读取部分数据；已测 {count} 组设置，最多还需 {seconds} s"
    ),
}
# The steps of `unstuck doctor` and `unstuck budget`.
STEPS = {
    "limits, CPU cores, variables and versions": "系统限制、CPU 核、环境变量与版本",
    "import the target and make its loader": "import 目标并创建 loader",
    "one sample, without a DataLoader": "取一个样本，不用 DataLoader",
    "several samples, each timed": "取多个样本，逐个计时",
    "one batch through collate_fn": "用 collate_fn 组成一个 batch",
    "the loader with num_workers=0": "loader，num_workers=0",
    "the loader with 1 worker": "loader，1 个 worker",
    "the loader with its workers": "loader，按其自身的 worker 数",
    "a second epoch after the first": "第一个 epoch 之后再跑一个",
    "stop in mid-epoch, begin again": "epoch 中途停止，再重新开始",
    "workers that are spawned, not forked": "用 spawn 而非 fork 启动 worker",
    "2 ranks (gloo) with its sampler": "2 个 rank（gloo），用其 sampler",
    "what limits its speed": "速度的瓶颈是什么",
    "load a few samples, one batch, run one worker": "加载几个样本和一个 batch，运行一个 worker",
}
TRIALS = {
    "Test Summary": "测试汇总",
    "here": "问题在此",
    "Benchmark, samples per second": "基准测试，每秒样本数",
    "Traceback of {step}": "{step} 的 traceback",
    "next": "下一步",
    "finds the settings that are fastest here": "找出本机上最快的设置",
    "predicts memory and /dev/shm": "预测内存与 /dev/shm 用量",
    "Not everything could be measured": "有些设置未能测量",
    "Nothing could be measured": "未能测量任何设置",
    "order": "顺序",
    "start-up": "启动",
    "memory": "内存",
    "waits": "等待占比",
    "as it is": "当前设置",
    "in order": "按序",
    "any": "乱序",
    "failed": "失败",
    "the usual formula": "常用公式",
    "not measured": "未测量",
    "{number} needed": "需要 {number}",
    "samples/s by num_workers": "各 num_workers 的 samples/s",
    "memory not measured": "内存未测量",
    "fast": "最快",
    "balanced": "均衡",
    "careful": "保守",
    "step": "step",
    "needs {number} samples/s": "需要 {number} samples/s",
    "formula": "公式",
    "what was measured counts": "以实测为准",
    "debug": "调试",
    "errors show their whole stack; prefetch_factor has no effect without workers": (
        "报错会带完整调用栈；没有 worker 时 prefetch_factor 不起作用"
    ),
    "measured": "实测",
    "kept": "保存在",
    "interrupted": "被中断",
    "{count} setting in {time}, of {grid} in the whole grid": "{time} 内测了 {count} 组设置（完整网格共 {grid} 组）",
    "{count} settings in {time}, of {grid} in the whole grid": "{time} 内测了 {count} 组设置（完整网格共 {grid} 组）",
    "the data came from memory (page cache, or none was read): a first epoch from the disk can be slower": (
        "数据来自内存（page cache，或没有读盘）：从磁盘读取的第一个 epoch 可能更慢"
    ),
    "the data came from the disk": "数据来自磁盘",
    "the data came from the disk at first, then from the page cache": "数据起初来自磁盘，之后来自 page cache",
}
BUDGET = {
    "safe": "安全",
    "tight": "紧张",
    "impossible": "放不下",
    "available on this machine": "（本机可用）",
    "left in this cgroup": "（本 cgroup 剩余）",
    "asked for (--memory)": "（--memory 指定）",
    "asked for (--shm)": "（--shm 指定）",
    "free here": "（本机空闲）",
    "nothing is loaded ahead": "没有预取",
    "{count} ranks on this node": "本节点 {count} 个 rank",
    "{count} rank": "{count} 个 rank",
    "{count} ranks": "{count} 个 rank",
    "{count} worker": "{count} 个 worker",
    "{count} workers": "{count} 个 worker",
    "batches made by the dataset": "batch 由 dataset 组成",
    "batches of {count}": "batch 大小 {count}",
    "{count} sample loaded": "加载了 {count} 个样本",
    "{count} samples loaded": "加载了 {count} 个样本",
    "no tensors": "没有 tensor",
    "in /dev/shm": "在 /dev/shm 中",
    "the largest": "最大",
    "in use": "使用中",
    "waiting, no tensors": "等待，非 tensor",
    "pinned": "pinned 内存",
    "being made": "正在组成",
    "decoding": "解码",
    "shuffle buffer": "shuffle 缓冲区",
    "allocator": "内存分配器",
    "dataset copies": "dataset 副本",
    "main process": "主进程",
    "one rank": "单个 rank",
    "this node": "本节点",
    "safer": "更安全",
    "assumed": "假设",
    "{number} times": "{number} 倍",
    "{size} of it in /dev/shm": "其中 {size} 在 /dev/shm",
}
CHECK = {
    "samples lost": "丢失样本",
    "file": "文件",
    "what is wrong": "问题",
    "has no bytes at all": "是空文件",
    "holds something else": "内容是别的格式",
    "cannot be read": "无法读取",
    "ends whatever reads it": "会使读取它的进程崩溃",
    "could do harm": "可能有害",
    "is truncated": "被截断",
    "is damaged": "已损坏",
    "holds nothing": "没有内容",
    "holds zeros instead of data": "数据被零填充",
    "cannot be decoded": "无法解码",
    "an image cannot be decoded": "有图像无法解码",
    "does not match the manifest": "与 manifest 不符",
    "is truncated inside a member": "在某个成员内部被截断",
    "is truncated inside a header": "在某个 header 内部被截断",
    "has no end mark": "没有结束标记",
    "is read as if it ended early": "读取时会提前结束",
    "has a damaged header": "header 已损坏",
    "files of a sample are not adjacent": "同一样本的文件不相邻",
    "contains a key twice": "有重复的 key",
    "is missing": "缺失",
    "all": "全部",
    "line {count}": "第 {count} 行",
    "row {count}": "第 {count} 行",
    "byte {count}": "第 {count} 字节",
    "{count} more place": "另有 {count} 处",
    "{count} more places": "另有 {count} 处",
    "and {count} more file": "另有 {count} 个文件",
    "and {count} more files": "另有 {count} 个文件",
    "{count} file": "{count} 个文件",
    "{count} files": "{count} 个文件",
    "{count} sample": "{count} 个样本",
    "{count} samples": "{count} 个样本",
    "{size} read in {time}": "{time} 内读取 {size}",
    "cold": "冷读",
    "warm": "热读",
    "mixed": "冷热混合",
    "to each reader": "每个读取进程",
    "too fast to tell": "太快，无法测出",
    "it was interrupted": "检查被中断",
    "checked": "已检查",
    "not read": "未读取",
    "no data": "没有数据",
    "not decoded": "未解码",
    "what was not read before is unknown; --resume continues": "此前未读取的部分未知；用 --resume 继续",
    "images, JSON and arrays in samples; --decode decodes them": "样本中的图像、JSON 和数组；用 --decode 解码",
    "--sample {share} read that part of the files completely: the others are unknown": (
        "--sample {share}：这部分文件已完整读取，其余未知"
    ),
    "--sample {share} read {count} file completely, and only the ends of {rest}: what is between is unknown": (
        "--sample {share}：完整读取了 {count} 个文件，另外 {rest} 个只读了首尾，中间未知"
    ),
    "--sample {share} read {count} files completely, and only the ends of {rest}: what is between is unknown": (
        "--sample {share}：完整读取了 {count} 个文件，另外 {rest} 个只读了首尾，中间未知"
    ),
    "{count} files, such as {path}": "{count} 个文件，例如 {path}",
    "{count} more file, for {others} other reason": "另有 {count} 个文件，{others} 种其他原因",
    "{count} more files, for {others} other reason": "另有 {count} 个文件，{others} 种其他原因",
    "{count} more files, for {others} other reasons": "另有 {count} 个文件，{others} 种其他原因",
    "{count} file without a fault of their own": "{count} 个文件自身没有问题",
    "{count} files without a fault of their own": "{count} 个文件自身没有问题",
    "{count} other file without a fault of their own": "其余 {count} 个文件自身没有问题",
    "{count} other files without a fault of their own": "其余 {count} 个文件自身没有问题",
    "filter for {loader}": "适用于 {loader} 的过滤器",
}
LISTING = {
    "command": "命令",
    "runs for": "已运行",
    "processes": "进程",
    "doing": "正在做",
    "recorded in {folder}": "记录于 {folder}",
    "No PyTorch training is visible on this machine (those of other users: only as root).": (
        "本机上看不到 PyTorch 训练（其他用户的训练需要 root 才能看到）。"
    ),
}
TABLES = (
    *(STATES, BLOCK, LOADING, EXPLAIN, SPOKEN, PROGRESS, STEPS, TRIALS, BUDGET, CHECK, LISTING),
    *(OVERVIEW, OPTIONS, DESCRIPTIONS),
)
WORDS: dict[str, str] = {english: own for table in TABLES for english, own in table.items()}
