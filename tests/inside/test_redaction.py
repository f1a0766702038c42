"""What is taken out of a text as a secret, and what only looks like one and stays."""

from __future__ import annotations

import json
import time

import pytest

from unstuck.inside import redaction
from unstuck.inside.redaction import (
    HIDDEN,
    redacted,
    redacted_arguments,
    redacted_document,
    redacted_values,
    secret_name,
)

X = "Zq7xK2mPw9"  # what must not be found afterwards
LONG = "Zq7xK2mPw9aB3cD4eF5gH6iJ7kL8mN9oP0qR1sT2"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"

TEXTS = [
    f"postgres://bob:{X}@db/prod",
    f"postgres://bob:{X}/more@db/prod",
    f"mysql://bob:p@{X}@db/prod",
    f"https://{X}@github.com/x.git",
    f"git clone https://oauth2:{X}@gitlab.com/y",
    f"redis://:{X}@cache:6379/0",
    f"postgres://bob:{X}",
    f"https://b.s3.amazonaws.com/o?X-Amz-Credential=AKIA{X}&X-Amz-Signature={X}",
    f"https://x.blob.core.windows.net/c?sv=1&sig={X}",
    f"403 for https://h.co/f?token={X}&n=3 and more",
    f"/data/a?sig={X}",
    f"https://maps.example/api?key={X}",
    f"https://login.example/cb?code={X}",
    f"https://storage.googleapis.com/b/o?X-Goog-Signature={X}",
    f"Server=x;User=y;Password={X} and, more;",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={X}==;EndpointSuffix=x",
    f"Driver=x;Uid=me;pwd={X}",
    f"Authorization: Bearer {X}",
    f"Authorization: Basic {LONG}==",
    f"curl -H 'Authorization: token {X}' x",
    f"got header Bearer {X}",
    f'{{"token": "{X}"}}',
    f"{{'api_key': '{X}', 'lr': 3}}",
    f'{{"a": "{{\\"password\\": \\"{X}\\"}}"}}',
    f"password={X}",
    f"password: {X}",
    f"login failed (user=me, passwd={X})",
    f"wandb_key={X}",
    f"WANDB_API_KEY={X}",
    f"AWS_SECRET_ACCESS_KEY={X}/{X}",
    f"aws_access_key_id={X}",
    f"Incorrect API key provided: {X}",
    f"client_secret = '{X}'",
    f"secretKey={X}",
    f"x-api-key: {X}",
    f"Cookie: session={X}; other=1",
    f"bash -c 'train.py --token {X} --lr 3'",
    f"token={X}",
    f"hf_token='{X}'",
    f"os.environ['HF_TOKEN'] = '{X}'",
    f"hf_{LONG[:34]}",
    f"/cache/hf_{LONG[:34]}/x.bin",
    f"sk-{LONG}",
    f"sk-proj-{LONG}",
    f"sk_live_{LONG[:24]}",
    f"ghp_{LONG[:36]}",
    f"gho_{LONG[:36]}",
    f"github_pat_{LONG}",
    f"glpat-{LONG[:20]}",
    f"xoxb-1234567890-{LONG[:20]}",
    f"AKIA{X.upper()}ABCDEF",
    f"AIza{LONG[:35]}",
    f"ya29.{LONG}",
    f"eyJ{LONG}.eyJ{LONG}.{LONG}",
    f"npm_{LONG[:36]}",
    f"dckr_pat_{LONG[:27]}",
    f"pypi-{LONG}{LONG}",
    f"SG.{LONG[:22]}.{LONG}",
    f"nvapi-{LONG}",
    f"gsk_{LONG}",
    f"r8_{LONG[:37]}",
    f"hvs.{LONG}",
    f"dapi{HEX[:32]}",
    f"wandb: API key {HEX}",
    f"wandb login {HEX}",
    f"https://hooks.slack.com/services/T00000000/B00000000/{LONG[:24]}",
    f"https://discord.com/api/webhooks/123456789/{LONG}",
    f"123456789:AA{LONG}",
    f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{X}\n{LONG}\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{LONG}",
    f"GOCSPX-{LONG[:28]}",
    f"PGPASSWORD={X}",
    f"dbpassword={X}",
    f"SSHPASS={X}",
    f"MYSQL_PASS={X}",
    f"SMTP_PASS: {X}",
    f"pass={X}",
    f"encoder_pass={X}",
    f"train.py --db-pass {X}",
    f"train.py --pass {X}",
    f"GITHUBTOKEN={X}",
    f"WANDBAPIKEY={X}",
    f"authkey={X}",
    f"kaggle_key={X}",
    f"API_KEY_2={X}",
    f"HF_TOKEN_2={X}",
    f"password=['{X}']",
    f"password=('{X}', ['{X}'])",
    f"api_keys: ['{X}', '{X}'], lr=3",
    f"auth=('bob', '{X}')",
    f"auth=HTTPBasicAuth('bob', '{X}')",
    f"password={{'a': '{X}'",
    f"https://h.co/cb#access_token={X}&n=3",
    f"sh -c 'curl -u bob:{X} https://h.co'",
    f"curl -ubob:{X}",
    f"docker login --user bob:{X}",
    f"sh -c \"train.py --password '${X}'\"",
    f'train.py --password "two {X}" --lr 3',
    f"password=${X}",
    f"password=<{X}",
    f"password={{{X}",
    f"https://h.co/f?pass={X}",
]
SECRETS = (X, X.upper(), LONG[:16], HEX[:32])


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_is_taken_out_of_a_text(text: str) -> None:
    clean = redacted(text)
    assert HIDDEN in clean
    assert not [one for one in SECRETS if one in clean], clean


@pytest.mark.parametrize("text", TEXTS)
def test_taking_secrets_out_twice_changes_no_more(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("text", TEXTS)
def test_a_json_document_without_its_secrets_is_a_json_document(text: str) -> None:
    clean = redacted_document(json.dumps({"message": text, "line": 3}, ensure_ascii=False))
    assert not [one for one in SECRETS if one in clean], clean
    assert json.loads(clean)["line"] == 3


HARMLESS = [
    "train.py --tokenizer bert-base-uncased --max-tokens 100",
    "--private-key-file /data/me/.ssh/id_rsa",
    "--key-metric loss",
    "tokens=12345",
    "num_tokens: 4096, max_new_tokens=256",
    "GPT2Tokenizer(pad_token='<pad>', eos_token='</s>', bos_token=<s>)",
    "special_tokens_map={'unk_token': '[UNK]', 'mask_token': '[MASK]'}",
    "eos_token_id=50256 pad_token_id: 0",
    "sort_key=length, cache_key=abc123def456, primary_key='image_id'",
    "keys=['image', 'label']",
    "KeyError: 'password'",
    "KeyError: 'encoder.layers.0.self_attn.in_proj_weight'",
    "TypeError: __init__() got an unexpected keyword argument 'use_auth_token'",
    "TypeError: f() missing 1 required positional argument: 'token'",
    "SyntaxError: unexpected token: else",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity)",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 1024x10)",
    "RuntimeError: DataLoader worker (pid(s) 15319) exited unexpectedly",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "RuntimeError: unable to open shared memory object </torch_4711_123456789_0> in read-write mode: No space left",
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/train/key-frames/000123.jpg'",
    "OSError: [Errno 24] Too many open files: '/data/secrets-of-nature/0001.png'",
    "PIL.UnidentifiedImageError: cannot identify image file '/data/imagenet/n01440764/n01440764_10026.JPEG'",
    "ValueError: too many values to unpack (expected 2)",
    "[rank0]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600000)",
    "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1333, unhandled system error",
    "HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/models/meta-llama/Llama-2-7b",
    "https://huggingface.co/datasets/allenai/c4/resolve/main/en/c4-train.00000-of-01024.json.gz?download=true",
    "https://example.com:8080/path@v1.2/file?page=3&sort=asc&sort_key=name",
    "https://esm.sh/react@18.2.0",
    "ssh://git@github.com/me/repo.git",
    "abfss://container@account.dfs.core.windows.net/data/part-0001.parquet",
    "s3://my-bucket/shards/train-{000000..000127}.tar",
    "gs://bucket/tokenized/part-00001-of-00128.arrow",
    "/data/me/.cache/huggingface/hub/models--bert-base-uncased/blobs/9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "/data/hf_datasets/wikitext/train.arrow",
    "/data/hf_internal_testing/sk-learn-data/ghs_features.npy",
    "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py:351",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b of the repository",
    "loss=0.123 lr=1e-4 step=1200 token_accuracy=0.93 tokens/s: 12000",
    "author: Bob, basic block of layers, bearer of news, the secret is in the data",
    "Basic blocks: 12, auth: failed, password: None, token=None, api_key: Optional[str]",
    "UNET_3D(in_channels=3, attn_key_dim=64, num_keys=8)",
    "2026-11-15 23:31:07,123 [INFO] epoch 3: 12:30 min left",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
    "HF_HOME=/mnt/cache/hf TOKENIZERS_PARALLELISM=false PWD=/data/me/project",
    "{'image_token_index': 32000, 'vision_feature_layer': -2, 'token_type_ids': None}",
    "DatasetGenerationError: An error occurred while generating the dataset shard 3: key: image_0001.png",
    "ghosts, ASIANFACES2020.tar, sk-resnet, npm_modules, keyboard=qwerty",
    "bypass=word, compass=word, passes=word, surpass=word, trespass=word, highpass=hann, encompass: all",
    "num_keys=x keys=12 keys=many monkey=x turkey=y hotkey=z keyboard=q, shared_keys=['a', 'b'], state_keys=['a']",
    "pass_rate=word, forward_pass=word, second_pass=word, low_pass=word, FORWARD_PASS=x, pass@1=0.5, pass=3",
    "forward pass: done, pass: 3 of 4, tiktoken=main, subtoken=x, retoken=y, token_0=x",
    "token=$TOKEN, token=${TOKEN}, token=<token>, password={password}, api_key=%(api_key)s, --password $PASSWORD",
    "token=$(cat /run/token) auth=<requests.auth.HTTPBasicAuth object at 0x7f1234567890>",
    "token: (see above), password=[], token=[1, 2], pad_token=<pad>, mask_token=['a'], authors=['a', 'b']",
    "docker run --user 1000:1000 and rsync -u host:dir, python -u train.py:main",
    "日本語のファイル名: データ_0001.png 🚀 naïve café",
    "",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text
    assert redacted_document(text) == text


ARGUMENTS = [
    ["--token", X],
    [f"--token={X}"],
    ["--hf-token", X],
    ["--wandb_key", X],
    ["--wandb-api-key", X],
    ["--apikey", X],
    ["--pwd", X],
    [f"--pw={X}"],
    ["--passwd", X],
    ["--password", "123456"],
    ["--auth", X],
    ["--key", X],
    ["--bearer", X],
    ["--apiToken", X],
    ["--secretKey", X],
    ["--passphrase", X],
    ["-p", X],
    [f"--logger.wandb.key={X}"],
    [f"+trainer.token={X}"],
    [f"trainer.password={X}"],
    ["--set", "token", X],
    ["--env", f"HF_TOKEN={X}"],
    ["-e", f"DB_PASSWORD={X}"],
    ["--token", f"-{X}"],
    ["--aws_access_key_id", f"AKIA{X}"],
    ["--aws-secret-access-key", f"{X}/{X}"],
    ["-u", f"bob:{X}"],
    ["--header", f"Authorization: Bearer {X}"],
    ["--json", f'{{"token": "{X}"}}'],
    [f"url=https://x?token={X}"],
    ["--conn", f"Server=x;User=y;Password={X};"],
    ["sh", "-c", f"HF_TOKEN={X} python train.py"],
    ["--db-pass", "word123456"],
    ["--pass", "word123456"],
    ["--foo-pass", "word123456"],
    ["sh", "-c", f"curl -u bob:{X} https://h.co"],
    [f"--user=bob:{X}"],
    ["--password", f"${X}"],
    ["--password", f"<{X}"],
    [f"--password={{{X}"],
    ["--kaggle-key", X],
    [f"--api-keys=['{X}']"],
    ["--api-keys", f"[{X}]"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_a_secret_is_taken_out_of_a_command_line(arguments: list[str]) -> None:
    clean = redacted_arguments(["python", "train.py", *arguments, "--lr", "0.1"])
    assert len(clean) == len(arguments) + 4
    assert clean[:2] == ["python", "train.py"]
    assert clean[-2:] == ["--lr", "0.1"]
    assert not [one for one in clean if X in one or "123456" in one]
    assert HIDDEN in " ".join(clean)


PLAIN_ARGUMENTS = [
    ["--private-key-file", "/x/id_rsa"],
    ["--tokenizer", "bert-base-uncased"],
    ["--max-tokens", "100"],
    ["--key-metric", "loss"],
    ["--key", "image"],
    ["--token-dropout", "0.1"],
    ["--pad_token", "<pad>"],
    ["--eos-token-id", "2"],
    ["--sort-key=length"],
    ["-p", "8080"],
    ["-p", "/data/x"],
    ["--auth", "none"],
    ["--token", "--lr", "0.1"],
    ["-u", "1000:1000"],
    ["model.tokenizer.max_length=512", "+data.keys=[image,label]"],
    ["--data", "s3://bucket/shards/{0000..0127}.tar"],
    ["-u", "train.py"],
    ["--secret-file", "s.json"],
    ["--token", "$HF_TOKEN"],
    ["--token", "${HF_TOKEN}"],
    ["--password", "<password>"],
    ["--bypass", "word"],
    ["--compass", "word"],
    ["--num-keys", "word"],
    ["--passes", "3"],
    ["--pass", "3"],
    ["--pass-rate", "word"],
    ["--low_pass=hann"],
]


@pytest.mark.parametrize("arguments", PLAIN_ARGUMENTS, ids=" ".join)
def test_arguments_that_are_no_secrets_stay(arguments: list[str]) -> None:
    assert redacted_arguments(["python", *arguments]) == ["python", *arguments]


NAMES = (
    "token hf_token apiToken api_key access_key auth_header pwd pw passwd db_password client_secret aws_access_key_id "
    "pass db_pass dbPass SSHPASS MYSQL_PASS pgpassword GITHUBTOKEN wandbapikey authkey kaggle_key api_keys API_KEY_2"
)
OTHERS = (
    "tokenizer tokens num_tokens pad_token eos_token_id sort_key key keys token_type_ids private_key_file author path "
    "bypass compass passes pass_rate num_keys monkey forward_pass low_pass lowpass shared_keys tiktoken pass@1"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_a_name_that_only_sounds_like_a_secret_is_none(name: str) -> None:
    assert not secret_name(name)


def test_what_has_the_name_of_a_secret_is_hidden_whatever_it_is() -> None:
    given = {"password": 1234, "pw": "word", "deep": [{"api_key": "short"}], "lr": 0.1, "token": None}
    kept = {"password": HIDDEN, "pw": HIDDEN, "deep": [{"api_key": HIDDEN}], "lr": 0.1, "token": None}
    assert redacted_values(given) == kept


def test_how_many_pass_is_no_secret() -> None:
    """Of a table of results; but what logs in is one, whatever it is."""
    results = {"pass": 12, "fail": 3, "pass@1": 0.5, "humaneval_pass": 0.4}
    assert redacted_values({**results, "db_pass": 12}) == {**results, "db_pass": HIDDEN}


def test_a_text_without_an_end_is_not_looked_through_for_ever() -> None:
    for text in (
        "a=" * 200_000,
        "://" * 200_000,
        "x:" + "/" * 200_000,
        "token" * 100_000,
        '"' * 300_000,
        "\\" * 300_000 + '="',
    ):
        assert X not in redacted(f"{text} password={X}")


@pytest.mark.parametrize("text", [*TEXTS, *HARMLESS])
def test_the_quick_check_leaves_out_nothing_that_the_whole_redaction_would_find(text: str) -> None:
    assert redacted(text) == redaction._redacted(text)


@pytest.mark.parametrize(
    "text",
    ["a_b-c." * 3333 + "=1 token", "x://a:b" * 2500, "token=" * 3333, "a:" * 9000 + "://x@y", '"token": "' * 2000],
    ids=["dotted names", "addresses", "names", "colons", "quotes"],
)
def test_a_text_made_to_take_long_takes_about_as_long_as_its_length(text):
    """Four times the text takes about four times as long, not sixteen times."""

    def seconds(length):
        begun = time.process_time()
        for _ in range(3):
            redacted(text[:length])
        return time.process_time() - begun

    seconds(100)

    assert seconds(16_000) < 8 * seconds(4_000) + 0.2
