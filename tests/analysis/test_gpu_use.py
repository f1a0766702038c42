"""Whether the GPU of a training is busy, and what is said where that cannot be known. All evidence is made up:
none of it comes from a machine with a GPU.
"""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.analysis.gpu import gpu_use
from unstuck.evidence import Evidence, Host, Run, Sample
from unstuck.evidence.basics import Timing
from unstuck.evidence.finding import Finding
from unstuck.evidence.live import Gpu
from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Process, Threads
from unstuck.reporting.bottleneck import bottleneck
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

STEPS, LOOP, PID, GIB = 100, 100.0, 10, 1 << 30


def run(gpus: list[Gpu], device: str = "cuda:0", visible: str | None = None, waited: float = 60.0) -> Evidence:
    """A loop that waits for data, by the clock of its main thread, and what NVML said of the machine."""
    loader = Loader(
        number=1, num_workers=4, batches=STEPS, pids=[11], first_at=5.0, optimizer_steps=STEPS,
        waits=Timing(STEPS, waited), bodies=Timing(STEPS, LOOP - waited),
    )  # fmt: skip
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    main = Process(
        node="a", pid=PID, parent=1, role="main", opened=1.0, last_sign=120.0, loaders=[loader], device=device,
        threads=Threads(variables=variables),
    )  # fmt: skip
    worker = Process(node="a", pid=11, parent=PID, role="worker", worker=0, fetching=[Fetching(loader=0)])
    samples = [Sample(at, gpus=gpus) for at in (2.0, 50.0, 110.0)]
    return Evidence(Run("x"), recording=[main, worker], host=[Host("a", cpus=8, samples=samples)])


def found(evidence: Evidence, rule: str = "dataloader-bound") -> list[Finding]:
    return judge_one(all_rules()[rule], Case(evidence)).findings


@pytest.mark.parametrize(
    "processes",
    [
        pytest.param({PID: GIB}, id="its own pid"),
        pytest.param({}, id="a container in which no process is listed"),
        pytest.param({70123: GIB}, id="a container that shows a pid of its host"),
    ],
)
def test_a_full_gpu_is_known_with_and_without_pids(processes: dict[int, int]) -> None:
    full = run([Gpu(0, busy=0.97, processes=processes)])

    assert gpu_use(Case(full), Case(full).mains[0]).busy == pytest.approx(0.97)
    assert found(full) == []
    assert [one.certainty for one in found(run([Gpu(0, busy=0.2, processes=processes)]))] == ["certain"]


def test_a_loop_whose_body_only_launches_is_not_data_bound_while_the_gpu_is_full() -> None:
    # given CUDA graphs: the body takes a hundredth of the loop, and nothing in it waits for the GPU
    launches = run([Gpu(0, busy=0.99)], waited=99.0)

    assert found(launches) == []
    assert bottleneck(Case(launches)).answer == "compute"


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ([], "no utilisation rate can be read here, as with ROCm"),
        ([Gpu(0, busy=None)], "GPU 0 has no utilisation rate, as with MIG"),
        ([Gpu(0, busy=0.2, processes={7: GIB, 8: GIB})], "other processes use GPU 0, too"),
        ([Gpu(1, busy=0.2), Gpu(2, busy=0.9)], "which of the 2 GPUs it uses is not known"),
    ],
)
def test_where_it_cannot_be_known_a_finding_is_only_possible_and_says_so(gpus: list[Gpu], why: str) -> None:
    unknown = run(gpus)
    (finding,) = found(unknown)

    assert finding.certainty == "possible"
    assert finding.seen[-1] == f"GPU use unknown: {why}"
    assert bottleneck(Case(unknown)).answer == "unknown"
    assert "Data may be the bottleneck: 60 % of the loop waits for data" in bottleneck(Case(unknown)).text


def test_the_device_is_found_by_the_variable_that_hides_the_others() -> None:
    gpus = [Gpu(number, busy=0.97 if number == 3 else 0.0) for number in range(4)]

    assert found(run(gpus, visible="2,3", device="cuda:1")) == []
    assert [one.certainty for one in found(run(gpus, visible="2,3"))] == ["certain"]
    assert [one.certainty for one in found(run(gpus, visible="GPU-4f"))] == ["possible"]


def test_a_gpu_that_another_rank_of_the_run_is_listed_on_is_not_taken_for_its_own() -> None:
    evidence = run([Gpu(0, busy=0.97, processes={12: GIB})])
    other = Process(node="a", pid=12, parent=1, role="main", device="cuda:1")
    both = msgspec.structs.replace(evidence, recording=[*(evidence.recording or []), other])

    assert [one.certainty for one in found(both)] == ["possible"]


def test_a_training_on_the_cpu_does_not_care_about_gpus() -> None:
    assert [one.certainty for one in found(run([Gpu(0, busy=0.99)], device="cpu"))] == ["certain"]
    assert [one.certainty for one in found(run([], device="cpu"))] == ["certain"]
    assert [one.certainty for one in found(run([], device="xla:0"))] == ["possible"]


@pytest.mark.parametrize("rule", ["dataloader-bound", "hf-indices-mapping", "workers-without-shards"])
def test_rules_that_a_busy_gpu_refutes_say_where_it_is_not_known(rule: str) -> None:
    evidence = evidence_of(rule)

    def on(gpus: list[Gpu]) -> list[str]:
        replace = msgspec.structs.replace
        recording = [replace(one, device="cuda:0") if one.role == "main" else one for one in evidence.recording or ()]
        hosts = [
            replace(one, samples=[replace(each, gpus=gpus) for each in one.samples]) for one in evidence.host or ()
        ]
        return [one.certainty for one in found(replace(evidence, recording=recording, host=hosts), rule)]

    assert on([Gpu(0, busy=0.97)]) == []
    assert set(on([Gpu(0, busy=0.1)])) == {"certain"}
    assert set(on([])) == {"possible"}
