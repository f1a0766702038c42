# ruff: noqa: E501, RUF001  (one entry is one line; punctuation is Chinese)
"""简体中文: what `unstuck --help` and `unstuck COMMAND --help` say, English to Chinese."""

OVERVIEW = {
    "unstuck tells why a PyTorch training run is stuck, slow, dead or silently wrong, and what to do about it.": (
        "unstuck 告诉你 PyTorch 训练为什么卡死、变慢、崩溃或悄悄出错，以及该怎么办。"
    ),
    "run a command, record it, and say what went wrong": "运行命令并记录，说明出了什么问题",
    "why is this run stuck, slow or dead: a pid, a run folder or a saved report": (
        "训练为什么卡死、变慢或崩溃：给出 pid、运行目录或已保存的报告"
    ),
    "test a loader step by step: what fails first, and what limits its speed": (
        "逐步测试 loader：最先失败的是哪一步，速度瓶颈在哪里"
    ),
    "predict how much memory and /dev/shm a loader needs": "预测 loader 需要多少内存和 /dev/shm",
    "measure a loader and find its fastest num_workers, prefetch_factor and the like": (
        "实测 loader，找出最快的 num_workers、prefetch_factor 等设置"
    ),
    "read a dataset as training would, and report every bad file, sample and byte": (
        "像训练一样读取数据集，报告每一个损坏的文件、样本和字节"
    ),
    "show or follow a run's text logs, by rank, level and pattern": "按 rank、级别、模式查看或跟踪运行的文本日志",
    "print the variables that turn on recording for a whole shell": "输出环境变量，为整个 shell 打开记录",
    "explain a rule or an error text, and how to fix it": "解释一条规则或一段报错，以及如何修复",
    "run a small broken training and show the verdict": "运行一个有问题的小训练并展示诊断",
    "Begin with `unstuck run -- python train.py`, or see it at work with `unstuck demo`.": (
        "从 `unstuck run -- python train.py` 开始，或用 `unstuck demo` 看看效果。"
    ),
    "`unstuck COMMAND --help` says more about each. UNSTUCK=0 switches everything off.": (
        "`unstuck COMMAND --help` 查看各命令的详细说明。UNSTUCK=0 关闭一切。"
    ),
}
OPTIONS = {
    "positional arguments": "位置参数",
    "options": "选项",
    "show this help message and exit": "显示本帮助并退出",
    "show all evidence, and what the recording cost": "显示全部依据，以及记录的开销",
    "no colours and no links (also: NO_COLOR=1)": "不用颜色和链接（也可设 NO_COLOR=1）",
    "print the report as JSON": "以 JSON 输出报告",
    "print the report as JSON instead": "改为以 JSON 输出报告",
    "with --json: include the evidence": "与 --json 一起用：包含全部证据",
    "folder for the run folders (default: unstuck-runs)": "存放各次运行目录的文件夹（默认：unstuck-runs）",
    # run
    "what to do when there is no progress. report (default): report the cause and keep watching; stop: also stop the run "
    "(exit code 124) if the cause is certain; stop-always: stop it for any cause, and even without one after "
    "--stall-after": (
        "没有进展时怎么办。report（默认）：报告原因并继续观察；stop：原因确定时还会终止训练（退出码 124）；"
        "stop-always：任何原因都终止，超过 --stall-after 后即使没有找到原因也终止"
    ),
    "seconds without progress after which a stall is reported even if its cause is unknown (default: 60)": (
        "多少秒没有进展后，即使原因未知也报告停滞（默认：60）"
    ),
    "command to run when a cause is found, with the path of the report as its last argument": (
        "找到原因时运行的命令，最后一个参数是报告的路径"
    ),
    "also write the report into FILE, as JSON": "同时把报告以 JSON 写入 FILE",
    "write the output of the command into logs/output_<time>.log of the run folder, and show only key lines (epochs, "
    "errors, findings, progress); the command then has no terminal": (
        "把命令的输出写入运行目录的 logs/output_<time>.log，控制台只显示关键行（epoch、错误、诊断、进度）；此时命令没有终端"
    ),
    "INFO: no lines about batches and samples (default: DEBUG, or $UNSTUCK_LOG_LEVEL)": (
        "INFO：不写关于 batch 和样本的行（默认：DEBUG，或 $UNSTUCK_LOG_LEVEL）"
    ),
    "log a line every N training batches (default: 100, or $UNSTUCK_LOG_EVERY)": (
        "每 N 个训练 batch 写一行日志（默认：100，或 $UNSTUCK_LOG_EVERY）"
    ),
    "log a line every N validation batches (default: 20, or $UNSTUCK_LOG_VALIDATION_EVERY)": (
        "每 N 个验证 batch 写一行日志（默认：20，或 $UNSTUCK_LOG_VALIDATION_EVERY）"
    ),
    "log every sample, stage by stage, in the log of its rank (as many as can be read; default: off, or "
    "$UNSTUCK_SAMPLE_TIMES=1)": (
        "在该 rank 的日志中逐阶段记录每个样本（来得及读多少写多少；默认关闭，或 $UNSTUCK_SAMPLE_TIMES=1）"
    ),
    "command to run, after --": "要运行的命令，写在 -- 之后",
    # why
    "a pid, a run folder or a saved report; without it, the trainings are listed": (
        "pid、运行目录或已保存的报告；省略则列出本机的训练"
    ),
    "with a pid: also sample for N seconds where the time goes": "给出 pid 时：再采样 N 秒，看时间花在哪里",
    "show what each rank did before its first step, phase by phase": "逐阶段显示每个 rank 在第一个 step 之前做了什么",
    "show where the time of loading goes, stage by stage": "逐阶段显示加载的时间花在哪里",
    # doctor, budget, tune
    "module:callable or path.py:callable that returns a DataLoader, a Dataset or a LightningDataModule": (
        "module:callable 或 path.py:callable，返回 DataLoader、Dataset 或 LightningDataModule"
    ),
    "arguments of the callable: a JSON object, or name=value": "callable 的参数：JSON 对象，或 name=value",
    "as if the loader had num_workers=N": "假设 loader 的 num_workers=N",
    "as if the loader had batch_size=N": "假设 loader 的 batch_size=N",
    "as if the loader had prefetch_factor=N": "假设 loader 的 prefetch_factor=N",
    "memory that may be used, such as 64G (default: what the machine or cgroup has left)": (
        "可用的内存，如 64G（默认：本机或 cgroup 的剩余内存）"
    ),
    "Python interpreter of the training (default: one that has torch)": "训练所用的 Python 解释器（默认：装有 torch 的那个）",
    "folder for the recordings (default: unstuck-runs)": "存放记录的文件夹（默认：unstuck-runs）",
    "steps to run, such as no-workers,workers": "要运行的步骤，如 no-workers,workers",
    "steps to skip": "要跳过的步骤",
    "skip the steps spawn, ranks and benchmark": "跳过 spawn、ranks 和 benchmark 三步",
    "list the steps and exit": "列出各步骤并退出",
    "time limit of each step, in seconds (default: 60)": "每一步的时间上限，单位秒（默认：60）",
    "end a step after S seconds without progress (default: 30)": "S 秒没有进展就结束该步骤（默认：30）",
    "time of a training step, which the loader has to keep up with": "一个训练 step 的时长，loader 需要跟得上",
    "training processes on this node (default: 1)": "本节点上的训练进程数（默认：1）",
    "size of /dev/shm, such as 64M (default: what is free here)": "/dev/shm 的大小，如 64M（默认：本机的空闲部分）",
    "without a TARGET, calculated from numbers": "不给 TARGET，直接用数字计算",
    "size of one sample as the training gets it": "训练拿到的一个样本的大小",
    "extra memory while a sample is loaded and decoded": "加载并解码一个样本时额外占用的内存",
    "samples in the shuffle buffer of each worker": "每个 worker 的 shuffle 缓冲区中的样本数",
    "size of one sample in that buffer": "该缓冲区中一个样本的大小",
    "size of the Python objects in the dataset": "dataset 中 Python 对象的大小",
    "time for measuring, in seconds (default: 60)": "测量所用的时间，单位秒（默认：60）",
    "run folder of the training that the loader has to keep up with": "训练的运行目录，loader 需要跟上该训练",
    # check
    "file, glob, brace range, folder, manifest or URL": "文件、glob、花括号范围、目录、manifest 或 URL",
    "also decode images, JSON, text and arrays inside archives": "同时解码归档内的图像、JSON、文本和数组",
    "read this share of the files completely, of the others only both ends": "完整读取这一比例的文件，其余只读首尾",
    "check that there are enough shards and row groups for N ranks": "检查 shard 和 row group 是否够 N 个 rank 用",
    "with M workers in each rank": "每个 rank 有 M 个 worker",
    "tokens per batch (B × T + 1): how many documents a batch takes": "每个 batch 的 token 数（B × T + 1）：一个 batch 需要多少文档",
    "compare with a manifest: unstuck's, an index, sha256sum's, counts, a list": (
        "与 manifest 比较：unstuck 的、索引、sha256sum 的、计数或文件名列表"
    ),
    "write sizes, sample counts and checksums, for --against later": "写出大小、样本数和校验和，供以后 --against 使用",
    "write the names of bad samples, and print filters for your loader": "写出损坏样本的名字，并输出可用于 loader 的过滤器",
    "continue an interrupted check of the same files and options": "继续一次被中断的检查（文件和选项相同）",
    "reader processes (default: one per CPU core)": "读取进程数（默认：每个 CPU 核一个）",
    "read on a Ray cluster, started here if none runs; needs unstuck[ray]": (
        "在 Ray 集群上读取，没有则在本机启动一个；需要 unstuck[ray]"
    ),
    "folder for its report (default: unstuck-runs)": "存放报告的文件夹（默认：unstuck-runs）",
    "let --write-manifest and --quarantine overwrite existing files": "允许 --write-manifest 和 --quarantine 覆盖已有文件",
    # logs
    "a run folder (default: the newest one here)": "运行目录（默认：这里最新的一个）",
    "the debug log of this rank": "该 rank 的 debug 日志",
    "only lines of this level or above": "只显示该级别及以上的行",
    r"only lines that match this regular expression (\| as in grep)": r"只显示匹配该正则表达式的行（\| 与 grep 相同）",
    "print new lines, until the run ends": "持续输出新的行，直到运行结束",
    "start with the last N lines": "从最后 N 行开始",
    "the output of the training itself, kept by `run --quiet`": "训练自身的输出，由 `run --quiet` 保存",
    "one JSON object per line": "每行一个 JSON 对象",
    "write the logs again from the recordings": "根据记录重新生成日志",
    "with --rewrite: folder for the logs (default: RUN/logs)": "与 --rewrite 一起用：日志文件夹（默认：RUN/logs）",
    # env
    "log every sample, stage by stage, in the log of its rank": "在该 rank 的日志中逐阶段记录每个样本",
    "print the lines that turn recording off again": "输出用于关闭记录的命令",
    "print a block for a job script, with the line that starts the training": "输出用于作业脚本的一段内容，包含启动训练的那一行",
    "with --slurm: the command of the training, after `--`": "与 --slurm 一起用：训练命令，写在 `--` 之后",
    # explain, demo
    "the name of a rule, or an error text; -: read the text from stdin": "规则名或报错文本；-：从 stdin 读取文本",
    "print the rules and their pages as JSON": "以 JSON 输出规则及其说明",
    "what to run (default: worker-python-exception)": "要运行的场景（默认：worker-python-exception）",
    "list the scenarios": "列出所有场景",
    "a Python that has torch (default: this one, or one on PATH)": "装有 torch 的 Python（默认：当前的，或 PATH 上的）",
}
# What `unstuck COMMAND --help` says first.
DESCRIPTIONS = {
    """\
Run a command, record it, and say what went wrong.

    unstuck run -- python train.py --epochs 3
    unstuck run -- torchrun --nproc-per-node 2 train.py
    unstuck run --on-stall stop -- python train.py
    unstuck run --quiet -- python train.py

Output, signals and the exit code remain those of the command. When it has ended, a block on stderr says what was found.
After 10 s without progress, or ten times as long as that activity usually takes, the run is examined: a cause is
reported at once, and the run continues. Exit code 124: no progress, and the run was stopped (--on-stall stop).
The text logs in the run folder are written from the recording, not by the training; `unstuck logs` shows them.""": """\
运行命令并记录，说明出了什么问题。

    unstuck run -- python train.py --epochs 3
    unstuck run -- torchrun --nproc-per-node 2 train.py
    unstuck run --on-stall stop -- python train.py
    unstuck run --quiet -- python train.py

输出、信号和退出码都与直接运行该命令时相同。命令结束后，stderr 上会输出一段诊断。
10 s 没有进展（或达到该操作平时耗时的十倍）时会检查训练：找到原因立即报告，训练继续运行。
退出码 124：没有进展，训练被终止（--on-stall stop）。
运行目录中的文本日志根据记录生成，不由训练进程写；用 `unstuck logs` 查看。""",
    """\
Say why a run is stuck, slow or dead: a live run by any of its pids, a recorded run by its folder, or a saved report.

    unstuck why                 list the trainings on this machine and what each is doing
    unstuck why 4242            look at the run that process 4242 belongs to; nothing needs to be installed in it
    unstuck why 4242 --seconds 10
    unstuck why unstuck-runs/train-20260501-031500-4242
    unstuck why report.json --json

Exit code 0: nothing found. 1: a cause, or a stall without a known cause. 2: no such run, or too little to judge by.""": """\
说明训练为什么卡死、变慢或崩溃：正在运行的给出任一 pid，记录过的给出目录，也可以给出已保存的报告。

    unstuck why                 列出本机的训练，以及各自正在做什么
    unstuck why 4242            查看进程 4242 所属的训练；训练环境中无需安装任何东西
    unstuck why 4242 --seconds 10
    unstuck why unstuck-runs/train-20260501-031500-4242
    unstuck why report.json --json

退出码 0：没有发现问题。1：找到原因，或停滞但原因未知。2：没有这个运行，或证据不足以判断。""",
    """\
Test a loader step by step, before a long run depends on it.

TARGET is module:callable or path.py:callable and returns a DataLoader, a Dataset or a LightningDataModule. Each step is
a recorded process with a time limit and a memory limit: one sample, several samples, a batch, the loader without
workers, with 1, with its own number; a second epoch, a stop in mid-epoch, spawned workers, 2 ranks, a benchmark.
The first step that fails is marked, with its cause. No process and nothing in /dev/shm is left behind.

  unstuck doctor train.py:make_loader
  unstuck doctor my.data:Images --kwargs root=/data size=224 --workers 8""": """\
在长时间训练之前，逐步测试 loader。

TARGET 是 module:callable 或 path.py:callable，返回 DataLoader、Dataset 或 LightningDataModule。
每一步都是一个被记录的进程，有时间和内存上限：一个样本、多个样本、一个 batch；loader 不用 worker、
用 1 个 worker、用自身的 worker 数；第二个 epoch、epoch 中途停止、spawn 的 worker、2 个 rank、基准测试。
最先失败的一步会标出来并给出原因。不会留下进程，也不会在 /dev/shm 中留下任何东西。

  unstuck doctor train.py:make_loader
  unstuck doctor my.data:Images --kwargs root=/data size=224 --workers 8""",
    """\
Predict how much memory and /dev/shm a loader needs before it runs, from a few samples and one worker.

Each term is shown as a multiplication. The sum for a rank and for the node is compared with the memory of this machine,
of its cgroup or --memory. --workers, --batch, --prefetch and --ranks answer what-if questions.

  unstuck budget train.py:make_loader
  unstuck budget train.py:make_loader --workers 16 --prefetch 4 --ranks 8
  unstuck budget --sample-mb 220 --workers 16 --batch 8 --prefetch 2 --decode-mb 1800 --memory 512G""": """\
运行之前，用几个样本和一个 worker 预测 loader 需要多少内存和 /dev/shm。

每一项都写成乘法。单个 rank 和整个节点的总和与本机内存、cgroup 或 --memory 比较。
--workers、--batch、--prefetch、--ranks 用来回答“如果改成……会怎样”。

  unstuck budget train.py:make_loader
  unstuck budget train.py:make_loader --workers 16 --prefetch 4 --ranks 8
  unstuck budget --sample-mb 220 --workers 16 --batch 8 --prefetch 2 --decode-mb 1800 --memory 512G""",
    """\
Find the best num_workers, prefetch_factor and other settings of a loader, by measuring it.

  unstuck tune train.py:make_loader
  unstuck tune train.py:make_loader --memory 64G --seconds 120
  unstuck tune train.py:make_loader --step-ms 85          the cheapest setting that keeps up with this step time
  unstuck tune train.py:make_loader --run unstuck-runs/X  the same, with the step time of a recorded run

Only a few settings are measured, each until the result is precise enough: `next()` is timed, without the warm-up, and
the noise is shown. Ctrl-C ends it and prints what was measured so far; no process is left behind.""": """\
通过实测找出 loader 最好的 num_workers、prefetch_factor 等设置。

  unstuck tune train.py:make_loader
  unstuck tune train.py:make_loader --memory 64G --seconds 120
  unstuck tune train.py:make_loader --step-ms 85          跟得上该 step 时长的最省设置
  unstuck tune train.py:make_loader --run unstuck-runs/X  同上，step 时长取自记录过的运行

只测量少数几组设置，每组测到足够精确为止：对 `next()` 计时，不含预热，并给出噪声。
Ctrl-C 会结束测量并输出已有结果；不会留下进程。""",
    """\
Read a dataset as training would, and report every bad file, sample and byte.

PATH is a file, a glob, a brace range, a folder, a manifest, or a URL that fsspec can open. Formats are recognised by
their content: tar and WebDataset shards, Parquet, Arrow, JSON lines, npy, npz, safetensors and images, also compressed.
Nothing is modified or unpacked.

  unstuck check 'shards/train-{000000..000127}.tar'
  unstuck check data/ --decode --ranks 8 --workers 4
  unstuck check data/ --write-manifest manifest.jsonl     later: --against manifest.jsonl
  unstuck check s3://bucket/shards/ --on ray

Exit code 0: no fault found. 1: faults found. 2: the data could not be checked.""": """\
像训练一样读取数据集，报告每一个损坏的文件、样本和字节。

PATH 是文件、glob、花括号范围、目录、manifest，或 fsspec 能打开的 URL。格式按内容识别：
tar 与 WebDataset shard、Parquet、Arrow、JSON lines、npy、npz、safetensors、图像，以及它们的压缩文件。
不修改也不解包任何文件。

  unstuck check 'shards/train-{000000..000127}.tar'
  unstuck check data/ --decode --ranks 8 --workers 4
  unstuck check data/ --write-manifest manifest.jsonl     以后：--against manifest.jsonl
  unstuck check s3://bucket/shards/ --on ray

退出码 0：没有发现问题。1：发现问题。2：数据无法检查。""",
    """\
Show a run's text logs, or follow them while it runs. Without RUN: the newest run in unstuck-runs.

    unstuck logs                               the main log: configuration, epochs, checkpoints, errors, findings
    unstuck logs -f                            follow it until the run ends
    unstuck logs --rank 0                      everything about one rank
    unstuck logs --level DEBUG                 everything about all ranks, in order of time
    unstuck logs --level ERROR -f
    unstuck logs RUN --grep "EPOCH.*START"
    unstuck logs --output -f                   the output of the training itself, kept by `unstuck run --quiet`
    unstuck logs RUN --rewrite                 write the logs again, from the recordings

The files are in RUN/logs: train_<time>.log, debug_rank<N>_<time>.log. `grep` and `tail -f` work on them, too.""": """\
查看运行的文本日志，或在运行时跟踪。省略 RUN：unstuck-runs 中最新的运行。

    unstuck logs                               主日志：配置、epoch、checkpoint、错误、诊断
    unstuck logs -f                            持续跟踪，直到运行结束
    unstuck logs --rank 0                      某个 rank 的全部内容
    unstuck logs --level DEBUG                 所有 rank 的全部内容，按时间排序
    unstuck logs --level ERROR -f
    unstuck logs RUN --grep "EPOCH.*START"
    unstuck logs --output -f                   训练自身的输出，由 `unstuck run --quiet` 保存
    unstuck logs RUN --rewrite                 根据记录重新生成日志

文件在 RUN/logs 中：train_<time>.log、debug_rank<N>_<time>.log。也可以直接用 `grep` 和 `tail -f`。""",
    """\
Print the variables that turn on recording for a whole shell, a Slurm script or a pod.

    eval "$(unstuck env)"
    python train.py

Every training started after that is recorded into its own run folder and watched by a separate process.
`unstuck env --off` prints the lines that turn it off again.

    unstuck env --slurm -- python train.py --config base.yaml >> submit_train.sh

prints a block for a job script instead: the same variables, what some other variables really do, and the line that
starts the training.""": """\
输出环境变量，为整个 shell、Slurm 脚本或 pod 打开记录。

    eval "$(unstuck env)"
    python train.py

此后启动的每个训练都会记录到各自的运行目录，并由独立的进程监视。
`unstuck env --off` 输出用于关闭记录的命令。

    unstuck env --slurm -- python train.py --config base.yaml >> submit_train.sh

则输出用于作业脚本的一段内容：同样的变量、其他一些变量的真实作用，以及启动训练的那一行。""",
    """\
Explain a rule or an error text: what it means, how to fix it, how to check it yourself, what else it may be.

    unstuck explain                                  list the rules
    unstuck explain worker-oom-killed
    unstuck explain "Bus error"
    unstuck explain - < traceback.txt                a pasted text or a whole log

Exit code 0: explained. 2: no rule has that name or text.""": """\
解释一条规则或一段报错：含义、如何修复、如何自行验证、还可能是什么。

    unstuck explain                                  列出所有规则
    unstuck explain worker-oom-killed
    unstuck explain "Bus error"
    unstuck explain - < traceback.txt                粘贴的文本，或整个日志

退出码 0：已解释。2：没有规则符合该名字或文本。""",
    """\
Run a small broken training under unstuck and show the verdict.

    unstuck demo
    unstuck demo shm-exhausted
    unstuck demo --list

Exit code 0: the verdict is the expected one. The training needs torch: it runs with this Python, with the first on PATH
that has it, or with --python.""": """\
在 unstuck 下运行一个有问题的小训练，并展示诊断。

    unstuck demo
    unstuck demo shm-exhausted
    unstuck demo --list

退出码 0：诊断与预期一致。训练需要 torch：用当前的 Python、PATH 上第一个装有 torch 的 Python，或 --python 指定的。""",
}
