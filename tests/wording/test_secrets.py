"""No secret is kept or shown: many are planted wherever one may lie, and every byte of what we leave is searched.

What the training itself prints is its own: with --quiet it lies in logs/output_*.log, which is not searched.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import random
import re
import string
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from unstuck.inside.failures.exceptions import describe

TIMEOUT = 300.0
LETTERS = string.ascii_letters + string.digits
# By kind: what a secret looks like. %x is 24 letters and digits, %h 40 hex digits, %u 16 capitals and digits.
KINDS = {
    "user and password": "postgresql://bob:%x@db/prod",
    "password with a slash": "postgres://bob:%x/%x@db/prod",
    "token as user": "https://%x@github.com/x.git",
    "oauth user": "https://oauth2:%x@gitlab.com/y",
    "empty user": "redis://:%x@cache:6379/0",
    "signed S3 address": "https://b.s3.amazonaws.com/o?X-Amz-Credential=AKIA%u&X-Amz-Signature=%x",
    "signed GCS address": "https://storage.googleapis.com/b/o?X-Goog-Signature=%x",
    "SAS": "https://x.blob.core.windows.net/c?sv=1&sig=%x",
    "token in a query": "https://h.co/f?token=%x&n=3",
    "key in a query": "https://maps.example/api?key=%x",
    "connection string": "Server=x;User=y;Password=%x;",
    "storage account": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=%x==;EndpointSuffix=x",
    "Authorization": "Authorization: Bearer %x",
    "basic Authorization": "Authorization: Basic %x==",
    "Bearer": "Bearer %x",
    "JSON": '{"token": "%x"}',
    "Python dict": "{'api_key': '%x', 'lr': 3}",
    "assignment": "password=%x",
    "colon": "password: %x",
    "exported": "HF_TOKEN=%x",
    "in a command": "train.py --token %x --lr 3",
    "Hugging Face": "hf_%x%x",
    "OpenAI": "sk-%x%x",
    "GitHub": "ghp_%x%x",
    "GitHub fine-grained": "github_pat_%x%x",
    "GitLab": "glpat-%x",
    "Slack": "xoxb-1234567890-%x",
    "AWS key id": "AKIA%u",
    "Google": "AIza%x%x",
    "JWT": "eyJ%x.eyJ%x.%x",
    "npm": "npm_%x%x",
    "Docker": "dckr_pat_%x",
    "wandb": "wandb: API key %h",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\n%x\n%x\n-----END RSA PRIVATE KEY-----",
    "webhook": "https://hooks.slack.com/services/T00000000/B00000000/%x",
    "of a database": "PGPASSWORD=%x psql -h db",
    "one word": "dbpassword=%x",
    "of ssh": "SSHPASS=%x sshpass -e ssh h",
    "pass": "MYSQL_PASS=%x",
    "pass as an option": "train.py --db-pass %x --lr 3",
    "pass alone": "train.py --pass %x --lr 3",
    "one word in capitals": "GITHUBTOKEN=%x",
    "a key in capitals": "WANDBAPIKEY=%x",
    "authkey": "authkey=%x",
    "kaggle": "kaggle_key=%x",
    "in a list": "password=['%x']",
    "several in a list": "api_keys=['%x', '%x']",
    "a pair": "auth=('bob', '%x')",
    "fragment of an address": "https://h.co/cb#access_token=%x",
    "Google client": "GOCSPX-%x",
    "curl": "sh -c 'curl -u bob:%x https://h.co'",
    "with a dollar": "sh -c \"train.py --password '$%x'\"",
    "with a bracket": "password=<%x",
}
OPTIONS = """
    --hf-token --token --api-key --apikey --wandb_key --wandb-api-key --password --pwd --passwd --auth --key --bearer
    --access-token --aws-secret-access-key --secretKey --apiToken --passphrase -p --db-pass --pass --kaggle-key
    --api-keys
"""
ASSIGNED = """
    --pw= --logger.wandb.key= +trainer.token= trainer.password= HF_TOKEN= --db.password= --credentials=
    PGPASSWORD= SSHPASS= MYSQL_PASS= GITHUBTOKEN=
"""
VARIABLES = """
    WANDB_API_KEY HF_TOKEN AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN DATA_ROOT_PASSWORD NCCL_NET_TOKEN NCCL_FOO
    GLOO_SECRET GLOO_X TORCH_NCCL_PW TORCH_NCCL_SECRET DATABASE_KIND SHARD_CODE CORPUS_PHRASE
    MY_BATCH_SIZE_NOTE OMP_PLACES_OF_X PGPASSWORD SSHPASS MYSQL_PASS GITHUBTOKEN WANDBAPIKEY
"""
ATTRIBUTES = """
    api_token pwd access_key auth_header db_password client_secret wandbKey passphrase pass db_pass authkey kaggle_key
"""
AT_ONCE = 8  # attributes of one dataset: 16 are recorded, in which its own have to fit
LONG = 200  # characters of a text that is a cause of its own


class Planted:
    """Secrets, each with a word of its own that is found nowhere else."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words: dict[str, str] = {}  # secret: where it was planted

    def secret(self, where: str, letters: str = LETTERS, length: int = 24) -> str:
        word = "".join(self._random.choices(letters, k=length - 2)) + self._random.choice(letters[:6]) + "7"
        self.words[word] = where
        return word

    def of_kind(self, kind: str, where: str) -> str:
        shapes = {"%x": (LETTERS, 24), "%h": ("abcdef0123456789", 40), "%u": (LETTERS[26:], 16)}
        return re.sub("%[xhu]", lambda sign: self.secret(f"{where}: {kind}", *shapes[sign[0]]), KINDS[kind])

    def missing_in(self, data: str) -> list[str]:
        """Those that nobody was given: to find none of them says nothing."""
        return [where for word, where in self.words.items() if word not in data]

    def found_in(self, data: bytes, name: str) -> list[str]:
        """Also half of one counts."""
        return [f"{name}: {where}" for word, where in self.words.items() if word[:12].encode() in data]


def left_in(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("output_"):
            yield str(path), path.read_bytes()
        yield f"the name {path}", str(path).encode()


def leaks(planted: Planted, folder: Path, said: list[subprocess.CompletedProcess[bytes]]) -> list[str]:
    found = [leak for name, data in left_in(folder) for leak in planted.found_in(data, name)]
    for process in said:
        name = " ".join(process.args[2:5])
        found += planted.found_in(process.stdout, f"stdout of {name}")
        found += planted.found_in(process.stderr, f"stderr of {name}")
    return found


def unstuck(folder: Path, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "unstuck", *words]
    environment = {**os.environ, **(env or {})}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=TIMEOUT, check=False)


TRAINING = """
import json, os, sys, threading
import torch
import torch.distributed as dist
import unstuck
from torch.utils.data import DataLoader, Dataset

told = json.load(open(sys.argv[1]))

class Records(Dataset):
    def __init__(self, attributes):
        for name, value in attributes.items():
            setattr(self, name, value)
        self.pin_password = 7
        self.files = told["files"]
    def __len__(self):
        return 12
    def __getitem__(self, index):
        with unstuck.stage("decode", item=told["items"][index % len(told["items"])]):
            path = told["paths"][0]
            if index == 9 and told["fails"]:
                try:
                    raise ValueError(told["cause"])
                except ValueError as cause:
                    raise RuntimeError(told["message"]) from cause
        return torch.zeros(2)

def main():
    dist.init_process_group("gloo", init_method="file://" + told["store"], rank=0, world_size=1)
    for number, text in enumerate(told["notes"]):
        unstuck.note(text[:60] if number % 2 else "CONFIG", value=text, deep={"password": told["words"][number % 4]})
    for text in told["names"]:
        with unstuck.phase(text):
            unstuck.progress(text, have=1, need=2, unit=text)
    thread = threading.Thread(target=lambda: None, name=told["names"][0])
    thread.start()
    thread.join()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for name in told["checkpoints"]:
        torch.save(model.state_dict(), name)
    for size, attributes in enumerate(told["attributes"], 2):  # another size makes it another loader
        next(iter(DataLoader(Records(attributes), batch_size=size)))
    loader = DataLoader(Records({}), batch_size=2, num_workers=1)
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

main()
"""


def plan(planted: Planted, folder: Path) -> dict[str, object]:
    """What the training is told: secrets as attributes, in an exception, in names of files, as items, in notes."""
    kinds = list(KINDS)
    texts = {where: [planted.of_kind(kind, where) for kind in kinds] for where in ("attributes", "message", "notes")}
    attributes = [(f"value_{number}", text) for number, text in enumerate(texts["attributes"])]
    attributes += [(name, planted.secret(f"attribute {name}")) for name in ATTRIBUTES.split()]
    return {
        "attributes": [dict(attributes[at : at + AT_ONCE]) for at in range(0, len(attributes), AT_ONCE)],
        "files": [f"/data/{number}.tar?sig={planted.secret('a list of files')}" for number in range(3)],
        "items": [f"/data/{number}.png?token={planted.secret('an item')}" for number in range(6)],
        "paths": [f"https://h.co/x.png?signature={planted.secret('a file in hand')}"],
        "message": "403: " + " and ".join(texts["message"][::2]),
        "cause": " and ".join(texts["message"][1::2]),
        "notes": texts["notes"],
        "words": [planted.secret("a note") for _ in range(4)],
        "names": [planted.of_kind(kind, "a name") for kind in ("Hugging Face", "assignment", "user and password")],
        "checkpoints": [str(folder / f"last_{planted.of_kind(kind, 'a checkpoint')}.pt") for kind in ("GitHub", "npm")],
        "store": str(folder / "store"),
        "fails": True,
    }


def arguments(planted: Planted) -> list[str]:
    words = []
    for option in OPTIONS.split():
        words += [option, planted.secret(f"argument {option}")]
    words += [f"{name}{planted.secret(f'argument {name}')}" for name in ASSIGNED.split()]
    words += ["--token", f"-{planted.secret('a value with a dash')}", "--set", "token", planted.secret("--set")]
    return words + [planted.of_kind(kind, "argument") for kind in KINDS]


def variables_of(planted: Planted) -> dict[str, str]:
    found = {name: planted.secret(f"variable {name}") for name in VARIABLES.split()}
    found["DATABASE_URL"] = planted.of_kind("user and password", "variable DATABASE_URL")
    found["DATA_DIR"] = f"s3://u:{planted.secret('DATA_DIR')}@bucket/x?sig={planted.secret('DATA_DIR')}"
    found["DATASET_PATH"] = planted.of_kind("token in a query", "variable DATASET_PATH")
    found["NCCL_SOCKET_IFNAME"] = planted.of_kind("GitHub", "variable NCCL_SOCKET_IFNAME")
    found["OMP_PLACES"] = planted.of_kind("assignment", "variable OMP_PLACES")
    return {**found, "UNSTUCK_SAMPLE_TIMES": "1"}


@pytest.fixture(scope="module")
def training(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Planted, Path, list[subprocess.CompletedProcess[bytes]]]:
    folder = tmp_path_factory.mktemp("training")
    planted = Planted(1)
    (folder / "train.py").write_text(TRAINING)
    (folder / "told.json").write_text(json.dumps(plan(planted, folder)))
    command, variables = [sys.executable, "train.py", "told.json", *arguments(planted)], variables_of(planted)
    given = [(folder / "told.json").read_text(), *command, *variables.values()]
    assert planted.missing_in("\n".join(given)) == []
    said = [unstuck(folder, "run", "--quiet", "--report", "report.json", "--", *command, env=variables)]
    (run,) = (folder / "unstuck-runs").iterdir()
    said += [unstuck(folder, "why", str(run)), unstuck(folder, "why", str(run), "--json", "--with-evidence")]
    said += [unstuck(folder, "logs", str(run), "--level", "DEBUG"), unstuck(folder, "logs", str(run), "--json")]
    return planted, folder, said


def test_no_secret_of_a_training_is_kept_or_shown(training: tuple[Planted, Path, list]) -> None:
    planted, folder, said = training
    assert said[0].returncode == 1, said[0].stderr.decode()  # as the training did
    assert len(planted.words) >= 350
    assert len(KINDS) >= 50
    assert sorted(set(leaks(planted, folder / "unstuck-runs", said))) == []
    assert planted.found_in((folder / "report.json").read_bytes(), "--report") == []


def test_what_is_no_secret_of_that_training_is_kept(training: tuple[Planted, Path, list]) -> None:
    """The search above finds nothing because of the redaction, not because nothing is kept."""
    _, folder, said = training
    (run,) = (folder / "unstuck-runs").iterdir()
    report = (run / "report.json").read_text()
    names = [*(f"value_{number}" for number in range(len(KINDS))), *ATTRIBUTES.split()]
    for kept in (
        *(f'"{name}"' for name in names),
        "--wandb_key",
        "403: postgresql://bob:",
        "b.s3.amazonaws.com",
        "/data/3.png?token=",
    ):
        assert kept in report
    recorded = b"".join(path.read_bytes() for path in run.rglob("*.rec"))
    assert b"/data/" in recorded
    assert b"db_password" in recorded
    assert b"NCCL_SOCKET_IFNAME" in recorded
    logged = "".join(path.read_text() for path in (run / "logs").glob("debug_*.log"))
    assert "DATA_DIR=s3://u:[redacted]@bucket/x?sig=[redacted]" in logged
    assert "DATABASE_URL" not in logged
    assert b"[redacted]" in said[1].stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_of_each_kind_is_taken_out_of_an_exception(kind: str) -> None:
    """Of the many in that training's message both ends are kept."""
    planted = Planted(5)
    text = planted.of_kind(kind, "an exception")
    error = RuntimeError(f"403: {text} was refused")
    error.__cause__ = ValueError(text)
    told = json.dumps(describe(error, "uncaught", {}), default=str)
    assert "403: " in told
    assert "[redacted" in told
    assert planted.found_in(told.encode(), "an exception") == []


LOADER = """
import hashlib, json
import torch
from torch.utils.data import DataLoader, Dataset

class Records(Dataset):
    def __init__(self, **given):
        self.given_url, self.hf_token = given["url"], given["hf_token"]
        self.fails = given["fails"]
        open(given["proof"], "w").write(hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest())
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if self.fails and index == 3:
            raise OSError(f"403 for {self.given_url}, token={self.hf_token}")
        return torch.zeros(2)

def make_loader(**given):
    return DataLoader(Records(**given), batch_size=2)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_no_secret_of_a_loader_that_is_tried_is_kept_or_shown_and_the_loader_gets_it(
    tmp_path: Path, fails: bool
) -> None:
    planted = Planted(2)
    (tmp_path / "data.py").write_text(LOADER)
    given = {
        "url": planted.of_kind("signed S3 address", "--kwargs"),
        "hf_token": planted.secret("--kwargs hf_token"),
        "db": planted.of_kind("password with a slash", "--kwargs"),
        "nested": {"password": planted.secret("--kwargs nested"), "key": planted.of_kind("OpenAI", "--kwargs")},
        "plain": planted.of_kind("JWT", "--kwargs"),
        "pwd": 81726354,
        "proof": str(tmp_path / "proof"),
        "fails": fails,
    }
    words = ["data.py:make_loader", "--only", "samples", "--kwargs", json.dumps(given)]
    said = [unstuck(tmp_path, "doctor", *words), unstuck(tmp_path, "doctor", *words, "--json", "--with-evidence")]
    folders = sorted((tmp_path / "unstuck-runs").iterdir())
    said += [unstuck(tmp_path, "why", str(folders[-1])), unstuck(tmp_path, "why", str(folders[-1]), "--json")]
    wanted = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
    assert (tmp_path / "proof").read_text() == wanted, "the loader is made with what was given"
    assert said[0].returncode == int(fails), said[0].stderr.decode()
    assert leaks(planted, tmp_path / "unstuck-runs", said) == []
    assert b"81726354" not in b"".join(data for _, data in left_in(tmp_path / "unstuck-runs"))
    assert not list((tmp_path / "unstuck-runs").rglob("arguments.json"))
    assert fails or b"[redacted]" in said[0].stdout  # in the commands that are proposed next


class Served(http.server.SimpleHTTPRequestHandler):
    """A stand-in for a bucket: every address of it is the same short file."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "700")
        self.end_headers()
        self.wfile.write(b"\x1f\x8b" + b"no tar" * 116 + b"..")

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "700")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def bucket() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Served))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_no_secret_of_an_address_that_is_checked_is_kept_or_shown(tmp_path: Path, bucket: str) -> None:
    planted = Planted(3)
    local = tmp_path / f"a.tar?token={planted.secret('a file name')}"
    local.write_bytes(b"no tar at all")
    addresses = [
        f"{bucket}/shard-0.tar?X-Amz-Signature={planted.secret('address')}&X-Amz-Security-Token={planted.secret('it')}",
        f"{bucket}/shard-1.tar?sig={planted.secret('address')}",
        bucket.replace("://", f"://me:{planted.secret('address')}@") + "/shard-2.tar",
        f"{tmp_path}/{planted.of_kind('Hugging Face', 'a name')}.tar",
    ]
    said = [unstuck(tmp_path, "check", local.name, *addresses), unstuck(tmp_path, "check", local.name, "--json")]
    said.append(unstuck(tmp_path, "check", local.name, addresses[1], "--resume"))
    for folder in sorted((tmp_path / "unstuck-runs").iterdir()):
        said += [
            unstuck(tmp_path, "why", str(folder)),
            unstuck(tmp_path, "why", str(folder), "--json", "--with-evidence"),
        ]
    assert b"Traceback" not in b"".join(one.stderr for one in said)
    assert b"a.tar?token=[redacted]" in said[0].stdout
    assert leaks(planted, tmp_path / "unstuck-runs", said) == []


def test_an_interrupted_check_goes_on_though_its_journal_has_no_address_in_full(tmp_path: Path) -> None:
    planted = Planted(4)
    for number in range(2):
        (tmp_path / f"{number}.jsonl?token={planted.secret('a file')}").write_text('{"a": 1}\n')
    names = sorted(path.name for path in tmp_path.iterdir())
    assert unstuck(tmp_path, "check", *names).returncode == 0
    (folder,) = (tmp_path / "unstuck-runs").iterdir()
    (folder / "report.json").unlink()  # as if it had been interrupted
    said = unstuck(tmp_path, "check", *names, "--resume", "--json", "--with-evidence")
    assert said.returncode == 0, said.stderr.decode()
    assert len((folder / "checked.jsonl").read_text().splitlines()) == 2, "nothing was read a second time"
    assert leaks(planted, tmp_path / "unstuck-runs", [said]) == []
