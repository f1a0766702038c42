"""Takes secrets out of texts: the one redaction in front of everything that is written or shown.

A secret is known by its name (`--token X`, `password=X`, `"api_key": "X"`), by its place (the user part and the query
of an address, an Authorization header, a connection string) or by its shape (`hf_…`, `AKIA…`, a JWT, a private key).
What only looks like it stays: tokenizers, numbers of tokens, sort keys, paths of key files.

It runs inside of the training too, on every new string of a recording: `redacted` begins with a check that costs about
a microsecond, and nothing is compiled before a text needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

HIDDEN = "[redacted]"
LONGEST = 20_000  # characters that are looked at: nothing longer is ever kept

# Words of a name, which is split at `_ - .` and where small letters become capital. These make it a secret:
_ALWAYS = {
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "credential", "credentials",
    "apikey", "accesskey", "secretkey", "privatekey", "accountkey", "sharedaccesskey", "apitoken", "accesstoken",
    "authtoken", "hftoken", "sharedaccesssignature", "jwt", "bearer", "authorization"
}  # fmt: skip
# So does a word that ends so: PGPASSWORD, WANDBAPIKEY.
_ENDINGS = (
    "password", "passwords", "passwd", "passphrase", "secret", "secrets", "credentials", "apikey", "apikeys", "authkey",
    "accesskey", "accesskeys", "secretkey", "secretkeys", "privatekey", "authtoken", "accesstoken", "apitoken", "pgpass"
)  # fmt: skip
# These do at the end of a name, or before one of MORE.
_LAST = {"token", "auth", "pwd", "pw", "cookie", "cookies", "sas"}
_MORE = {"header", "value", "string", "read", "write", "key", "code"}
# Whose key is a secret; a sort key or an image key is none.
_KEYS = {
    "api", "access", "secret", "private", "auth", "wandb", "account", "storage", "shared", "encryption", "signing",
    "ssh", "master", "service", "subscription", "license", "hf", "openai", "anthropic", "aws", "gcp", "azure",
    "comet", "neptune", "clearml", "hmac", "aes", "s3", "minio", "client", "consumer", "app", "deploy", "mlflow",
    "swanlab", "kaggle", "huggingface", "github", "gitlab", "slack", "stripe", "twilio", "sendgrid", "datadog",
    "cohere", "mistral", "groq", "gemini", "deepseek", "pinecone", "roboflow", "labelbox", "replicate", "jwt",
    "decryption"
}  # fmt: skip
# Of which there may be several: shared keys are those of two dictionaries.
_PLURAL = {"api", "access", "secret", "private", "auth", "wandb", "signing", "encryption", "ssh", "hf", "openai", "aws"}
# Whose pass is a password; a forward pass is none, and neither are bypass and compass.
_LOGINS = {
    "db", "database", "sql", "mysql", "pg", "postgres", "postgresql", "mongo", "mongodb", "redis", "rabbitmq", "amqp",
    "mqtt", "kafka", "elastic", "clickhouse", "user", "ssh", "ftp", "sftp", "smtp", "imap", "mail", "email", "proxy",
    "http", "https", "admin", "root", "sudo", "login", "auth", "ldap", "vault", "keystore", "key", "cert", "git",
    "registry", "docker", "jdbc", "api", "account", "broker", "wifi", "aws", "s3", "minio", "service", "svc", "client",
    "server", "master", "nexus", "artifactory", "pypi", "twine", "smb", "my"
}  # fmt: skip
# Passes of other kinds, where a name is all in capitals.
_PASSES = {"forward", "backward", "low", "high", "band", "all", "num", "n", "max", "min", "first", "second", "last"}
# What a name ends with that is about a secret and is none.
_ABOUT = {
    "file", "files", "path", "paths", "dir", "folder", "id", "ids", "idx", "index", "name", "names", "len", "length",
    "count", "num", "number", "type", "types", "size", "dim", "field", "column", "env", "var", "expiry", "expires",
    "ttl", "timeout", "limit", "error", "exception", "required", "enabled", "manager", "provider", "store", "prompt"
}  # fmt: skip
# Tokens of a language model.
_TEXTUAL = {
    "pad", "padding", "eos", "bos", "unk", "unknown", "sep", "cls", "mask", "special", "start", "end", "image", "img",
    "audio", "video", "speech", "vision", "num", "max", "min", "n", "total", "per", "avg", "mean", "new", "first",
    "last", "next", "prev", "previous", "added", "extra", "begin", "stop", "sot", "eot", "bot", "eod", "eom", "vocab",
    "sentinel", "blank", "ignore", "decoder", "encoder", "forced", "prefix", "suffix", "class", "register", "target",
    "src", "tgt", "text", "word", "sub", "subword", "newline", "space", "prompt", "placeholder", "unexpected", "user",
    "assistant", "system", "timestamp", "language", "lang", "task", "object", "patch", "latent", "boi", "eoi", "each",
    "tik", "de", "re", "pre", "un", "non", "multi", "any"
}  # fmt: skip
# Values that are none, whatever the name.
_PLAIN = {
    "none", "null", "true", "false", "yes", "no", "on", "off", "str", "string", "int", "bytes", "bool", "optional",
    "basic", "oauth", "oauth2", "ssl", "tls", "kerberos", "ldap", "default", "auto", "any", "unset", "missing",
    "required", "invalid", "expired", "empty", "prompt", "env", "stdin", "nonetype", "-"
}  # fmt: skip


def secret_name(name: str) -> bool:
    """Whether what has this name is a secret: an attribute, a variable, an option."""
    return _strength(name) > 0


def redacted(text: str) -> str:
    """The text without its secrets."""
    return _redacted(text) if _may_hold_secret(text) else text


def redacted_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line without its secrets: also those that follow their name as an argument of their own."""
    clean: list[str] = []
    hide: Callable[[str], bool] = _nothing
    for number, argument in enumerate(arguments):
        before = arguments[number - 1] if number else ""
        clean.append(HIDDEN if hide(argument) else _argument(argument, before))
        hide = _hides_next(argument, before)
    return clean


def redacted_document(text: str) -> str:
    """The same for a text that may be a JSON document, which stays one."""
    if not _may_hold_secret(text):
        return text
    if text[:1] in ("{", "["):
        try:
            return json.dumps(redacted_values(json.loads(text)), ensure_ascii=False)
        except ValueError:
            pass
    return _redacted(text)


def redacted_values(value: Any, name: str = "") -> Any:
    """The same for what a JSON document is made of. A name that is a secret's hides numbers as well."""
    if isinstance(value, dict):
        return {
            redacted(key) if type(key) is str else key: redacted_values(one, str(key)) for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redacted_values(one, name) for one in value]
    if value is None or isinstance(value, bool):
        return value
    if name and isinstance(value, (str, int, float)) and secret_name(name):
        counted = not isinstance(value, str) and _is_bare_pass(name) and _strength(name) == 1  # {"pass": 12, "fail": 3}
        return value if counted else HIDDEN
    return redacted(value) if isinstance(value, str) else value


def _may_hold_secret(text: str) -> bool:
    """Quickly: most texts are names and paths. A chain of `in` costs a third of one regular expression here."""
    if (":" in text or "=" in text or " " in text or "%20" in text) and _has_word_or_user(text):
        return True
    return (
        "hf_" in text or "sk-" in text or "ghp_" in text or "gho_" in text or "ghs_" in text or "ghu_" in text
        or "ghr_" in text or "_pat_" in text or "glpat-" in text or "gldt-" in text or "glrt-" in text
        or "glcbt-" in text or "xox" in text or "xapp-" in text or "AKIA" in text or "ASIA" in text or "AIza" in text
        or "eyJ" in text or "_live_" in text or "_test_" in text or "npm_" in text or "pypi-" in text or "SG." in text
        or "_v1_" in text or "r8_" in text or "nvapi-" in text or "dapi" in text or "_api_" in text or "gsk_" in text
        or "hvs." in text or "hvb." in text or "ya29." in text or "key-" in text or "KEY-" in text or "ATATT" in text
        or "GOCSPX-" in text or "xai-" in text or "pplx-" in text or "figd_" in text or "whsec_" in text
        or "shp" in text or ":AA" in text
        or "hooks.slack" in text or "webhooks/" in text
    )  # fmt: skip


def _has_word_or_user(text: str) -> bool:
    """A word of which the name of a secret is made, or an address with more than a host."""
    if "://" in text and ("@" in text or text.count(":") > text.count("://")):
        return True
    low = text.lower()
    return (
        "tok" in low or "key" in low or "pass" in low or "secret" in low or "auth" in low or "pw" in low
        or "cred" in low or "bear" in low or "basic" in low or "cookie" in low or "sas" in low or "jwt" in low
        or "sig" in low or "code=" in low or "policy=" in low or "session" in low or "ticket" in low
        or "x-amz" in low or "x-goog" in low or "x-oss" in low or "x-cos" in low
        or "accessid" in low or "wandb" in low or "login" in low
        or (":" in low and (" -u" in low or "-user" in low or low.startswith("-u")))
    )  # fmt: skip


def _redacted(text: str) -> str:
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    if "-----BEGIN" in text:
        text = _pattern(_PEM).sub(HIDDEN, text)
    if "://" in text:
        text = _pattern(_USER).sub(_user, text)
        text = _pattern(_CUT).sub(_cut, text)
    if "=" in text:
        text = _pattern(_QUERY).sub(_query, text)
        if ";" in text:
            text = _pattern(_CONNECTION).sub(rf"\1{HIDDEN}", text)
    if " " in text or ":" in text or "=" in text:
        text = _pattern(_HEADER).sub(_header, text)
        text = _pattern(_SCHEME).sub(_scheme, text)
        text = _pattern(_OPTION).sub(_option, text)
        text = _pattern(_LOGIN).sub(_login, text)
        text = _pattern(_HEX).sub(rf"\1{HIDDEN}", text)
    if "=" in text or ":" in text:
        if "[" in text or "(" in text or "{" in text:
            text = _without_bracketed(text)
        text = _pattern(_ASSIGNED).sub(_assigned, text)
    return _pattern(_SHAPES).sub(_shape, text)


_PEM = r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)"
# The user part of an address: up to the last @ before the path, or, where a password holds a slash, the last of all.
# Each part has a longest length: a text may be a megabyte of the beginnings of addresses.
_USER = (
    r"""(?i)\b([a-z][a-z0-9+.-]{0,20}://)(?:([^\s/?#"'<>]{0,400})@"""
    r"""|([^\s/:@"'<>]{0,200}:(?!\d+(?:[/?#]|$))[^\s"'<>]{0,400})@)"""
)
_CUT = r"""(?i)\b([a-z][a-z0-9+.-]{0,20}://[^\s/:@"'<>\[]{1,200}:)(?!\d)([^\s@"'<>]{8,400})(?![^\s"'<>]{0,400}@)"""
_QUERY_NAMES = (
    r"(?:x-(?:amz|goog|oss|cos)-[\w-]+|sig|signature|sign|[\w.-]*token|[\w.-]*secret|pass|[\w.-]*passw(?:or)?d|pwd|pw|[\w.-]*key"
    r"|auth|code|sas|googleaccessid|awsaccesskeyid|key-pair-id|policy|credentials?|jwt|session|sessionid|ticket)"
)
_QUERY = rf"""(?i)([?&;#](?:amp;)?)({_QUERY_NAMES})=([^&#\s"'<>]+)"""
_CONNECTION = (
    r"""(?i)(\b(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature|secretkey|accesskey)\s*=\s*)"""
    r"""(?!\[redacted)[^;"'\n]+(?=;|["'\n]|$)"""
)
_HEADER = (
    r"""(?i)\b((?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?)((?:[a-z]+\s+)?)([^\s"'\\,;\[][^\s"'\\,]*)"""
    r"""|\b((?:set-)?cookie:\s*)([^\s\[][^\n"']*)"""
)
_SCHEME = r"(?i)\b(bearer|basic)(\s+|%20)([a-z0-9._~+/-]{6,}=*)"
_OPTION = r"""(?<![\w-])(--[A-Za-z][\w.-]*)(\s+)(?!--[A-Za-z])("[^"\n]{0,400}"|'[^'\n]{0,400}'|[^\s"'\[]\S*)"""
_LOGIN = r"""((?:^|[\s"'])(?:-u\s*|--(?:proxy-)?user(?:\s+|=)))(["']?[^\s:/"'$]{1,100}):([^\s"']{1,400})"""
_HEX = r"(?i)(\b(?:key|wandb|login|token)\b[\"'\s:=]{1,6})[0-9a-f]{40}\b"
_ASSIGNED = (
    r"""(?i)(?<![\w.-])(-{0,2}(?:(?:api|access|secret|private|account)\s+key(?:\s+(?:provided|given|is))?"""
    r"""|[a-z_][\w.-]*))(\\?["']?\]?\s*(?::=|[:=])\s*)"""
    r"""(\\"(?:[^"\\]|\\(?!").)*\\"|\\'(?:[^'\\]|\\(?!').)*\\'|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"'\[{(\\][^\s"'&;]*)"""
)
# The same where a list, a dictionary or a call follows.
_OPENED = (
    r"""(?i)(?<![\w.-])(-{0,2}[a-z_][\w.-]{0,100})(\\?["']?\]?\s{0,9}(?::=|[:=])\s{0,9})"""
    r"""([a-z_][\w.]{0,60})?([\[({])"""
)
_PLACEHOLDER = (
    r"\$(?:[A-Z][A-Z0-9_]*|[a-z][a-z_]*|\{[A-Za-z_]\w*(?:[:?+-][^}\s]*)?\}|\([a-z][^)]*\)?)|<[A-Za-z_][A-Za-z_ .:-]*>?"
    r"|<[^>]* at 0x[^>]*>?|\{\{?[A-Za-z_][A-Za-z_.]*\}?\}|%\(\w+\)s"
)
_SHAPES = (
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[A-Za-z]{0,40}\d|[a-z]{0,40}[A-Z])[A-Za-z0-9]{12,}|sk-(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{12,}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|gh[pousr]_(?=[a-z]{0,40}[0-9A-Z])[A-Za-z0-9]{8,}|github_pat_\w{16,}"
    r"|gl(?:pat|dt|rt|cbt)-[\w-]{12,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|AKIA[A-Z0-9]{6,}|ASIA[A-Z0-9]{16}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|npm_[A-Za-z0-9]{16,}|dckr_pat_[\w-]{12,}"
    r"|pypi-[\w-]{32,}|SG\.[\w-]{16,}\.[\w-]{16,}|do[opr]_v1_[0-9a-f]{32,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}"
    r"|r8_[A-Za-z0-9]{24,}|nvapi-[\w-]{16,}|gsk_[A-Za-z0-9]{20,}|dapi[0-9a-f]{32}|hv[sb]\.[\w-]{20,}|GOCSPX-[\w-]{12,}|whsec_[\w+/=-]{16,}"
    r"|key-[0-9a-f]{32}|ATATT3[\w=-]{16,}|AGE-SECRET-KEY-1[A-Z0-9]{16,}|lin_api_[A-Za-z0-9]{16,}|figd_[\w-]{16,}"
    r"|pplx-[A-Za-z0-9]{24,}|xai-[A-Za-z0-9]{24,}|wandb_v1_[\w-]{16,}|(?<!\d)\d{8,10}:AA[\w-]{30,}"
    r")|(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[\w/-]{12,}"
)


@cache
def _pattern(source: str) -> re.Pattern[str]:
    """Compiled when it is needed for the first time: most trainings never need it."""
    return re.compile(source)


def _user(found: re.Match[str]) -> str:
    scheme, whole, odd = found.groups()
    given = whole if whole is not None else odd
    name, colon, password = given.partition(":")
    if colon:
        return f"{scheme}{'' if _is_shape(name) else name}:{HIDDEN if password else ''}@"
    by_name = scheme.lower().rpartition("+")[2] in ("http://", "https://", "ftp://")  # elsewhere a container, or git@
    return f"{scheme}{HIDDEN}@" if _is_shape(name) or (by_name and _looks_random(name)) else found[0]


def _cut(found: re.Match[str]) -> str:
    return f"{found[1]}{HIDDEN}" if _looks_random(found[2].partition("/")[0]) else found[0]


def _query(found: re.Match[str]) -> str:
    before, name, value = found.groups()
    if found[0].startswith((";", "#")) and not _strength(name) and not _looks_random(value):
        return found[0]
    kept = name.lower() in ("key", "code", "policy", "session", "auth") or name.lower().endswith(("token", "key"))
    if kept and not _strength(name) and (value.isdigit() or _words(name)[:-1]) and not _looks_random(value):
        return found[0]
    return f"{before}{name}={HIDDEN}"


def _header(found: re.Match[str]) -> str:
    if found[4] is not None:
        return f"{found[4]}{HIDDEN}"
    return found[0] if found[3].lower() in _PLAIN else f"{found[1]}{found[2]}{HIDDEN}"


def _scheme(found: re.Match[str]) -> str:
    word, space, value = found.groups()
    basic = word.lower() == "basic"
    random = len(value) >= 12 and (value.endswith("=") or _is_mixed(value)) if basic else _looks_random(value)
    return f"{word}{space}{HIDDEN}" if random else found[0]


def _option(found: re.Match[str]) -> str:
    name, space, value = found.groups()
    opening, inner, closing = _unquoted(value)
    if opening == "'" and inner.startswith("$") and not inner[1:].isupper():  # a shell puts nothing into these quotes
        return f"{name}{space}{opening}{HIDDEN}{closing}" if _strength(name) else found[0]
    if _hidden_by(name, inner):
        return f"{name}{space}{opening}{HIDDEN}{closing}"
    return f"{name}{space}{opening}{_pattern(_OPTION).sub(_option, inner)}{closing}" if opening else found[0]


def _login(found: re.Match[str]) -> str:
    """`curl -u bob:password`, and not the user and group of a container, or a file on another machine."""
    option, user, password = found.groups()
    by_curl = "curl" in found.string or "http" in found.string
    if password.isdigit() or _is_placeholder(password) or (not by_curl and ("/" in password or "user" not in option)):
        return found[0]
    return f"{option}{user}:{HIDDEN}"


def _without_bracketed(text: str) -> str:
    """Without lists, dictionaries and calls that follow the name of a secret."""
    parts, at = [], 0
    for found in _pattern(_OPENED).finditer(text):
        if found.start() < at or not _strength(found[1]):
            continue
        begin, end = found.start(4), _closing(text, found.start(4))
        if _is_secret_inside(found, text[begin:end]):
            quote = found[2][: len(found[2]) - len(found[2].lstrip("\\\"'"))]  # what was a document stays one
            parts += [text[at : found.end(2)], quote, HIDDEN, quote]
            at = end
    return "".join([*parts, text[at:]])


def _closing(text: str, at: int) -> int:
    """Where the bracket that opens here has been closed; a text that was cut ends inside of it."""
    depth = 0
    for found in _pattern(r"[\[({]|[\])}]").finditer(text, at):
        depth += 1 if found[0] in "[({" else -1
        if not depth:
            return found.end()
    return len(text)


def _is_secret_inside(found: re.Match[str], inside: str) -> bool:
    name, sign, called, _ = found.groups()
    told = inside.strip("[](){} ,")
    if not told or inside.startswith(HIDDEN[:-1]) or _is_placeholder(inside) or (called or "").lower() in _PLAIN:
        return False
    quoted = '"' in told or "'" in told
    if called or (":" in sign and _strength(name) == 1):  # `token: (see above)`, `auth: Optional[str]`
        return quoted
    return _strength(name) == 2 or _pattern(r"[\d\s.,eE+-]+").fullmatch(told) is None


def _assigned(found: re.Match[str]) -> str:
    name, sign, value = found.groups()
    opening, inner, closing = _unquoted(value)
    strength = 2 if " " in name else _strength(name) or int(_is_bare_pass(name) and _looks_random(value.strip("\"'")))
    if not strength and opening and ("=" in inner or ":" in inner):  # `"body": "{\\"password\\": …}"`
        return f"{name}{sign}{opening}{_pattern(_ASSIGNED).sub(_assigned, inner)}{closing}"
    if not strength or inner.startswith(HIDDEN[:-1]) or _is_placeholder(inner.rstrip(",.;)]")):
        return found[0]
    if not opening:
        inner, closing = _sentence(inner, strength)
    said = ":" in sign and not opening and strength == 1  # `unexpected token: else` is prose
    if not _hidden_by(name, inner, strength) or (said and not _looks_random(inner)):
        return found[0]
    return f"{name}{sign}{opening}{HIDDEN}{closing}"


def _unquoted(value: str) -> tuple[str, str, str]:
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote) and value.endswith(quote) and len(value) >= 2 * len(quote):
            return quote, value[len(quote) : -len(quote)], quote
    return "", value, ""


def _sentence(value: str, strength: int) -> tuple[str, str]:
    """What belongs to the text around it: the end of a call, of a list, of a sentence. A password may hold commas."""
    if strength == 1:
        value, comma, rest = value.partition(",")
        rest = comma + rest
    else:
        rest = ""
    kept = value.rstrip(",.)]}>")
    return kept, value[len(kept) :] + rest


def _shape(found: re.Match[str]) -> str:
    return f"{found[1] or ''}{HIDDEN}"


def _is_shape(text: str) -> bool:
    return _may_hold_secret(text) and _pattern(_SHAPES).search(text) is not None


@lru_cache(maxsize=512)
def _strength(name: str) -> int:
    """2: whatever it is set to is a secret. 1: unless it is a number, a path or a word. 0: no secret."""
    words = _words(name) or [""]
    numbered = len(words) > 1 and words[-1].isdigit()
    if numbered:  # HF_TOKEN_2
        words = words[:-1]
    last = words[-1]
    if last == "id":  # an access key's own
        return 2 if words[-2:-1] in (["key"], ["secret"]) and _strength("_".join(words[:-1])) else 0
    if last in _ABOUT:
        return 0
    if not _ALWAYS.isdisjoint(words) or any(one.endswith(_ENDINGS) for one in words) or _is_key(words):
        return 2
    if last.endswith("pass"):
        return _strength_of_pass(name, words, numbered=numbered)
    return int(_may_be_secret(words) and not (numbered and len(words) == 1))


def _may_be_secret(words: list[str]) -> bool:
    """By what the name ends with."""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _MORE and before in _LAST:
        last, words = before, words[:-1]
    if last == "tokens":
        return not {"api", "access", "auth", "hf"}.isdisjoint(words)
    if last == "keys":
        return before in _PLURAL
    if last.endswith("token"):
        return _TEXTUAL.isdisjoint([*words, last.removesuffix("token")])
    return last in _LAST or last.endswith("pwd")


def _is_key(words: list[str]) -> bool:
    """`api_key`, `authkey`."""
    before = words[-1].removesuffix("key") or "".join(words[-2:-1])
    return words[-1].endswith("key") and before in _KEYS


def _strength_of_pass(name: str, words: list[str], *, numbered: bool) -> int:
    """Of a name that ends with `pass`: a word for many things, but after `db` a password."""
    before = words[-1].removesuffix("pass") or "".join(words[-2:-1])
    if before in _LOGINS:
        return 2
    typed = name.isupper() or name.startswith("-") or len(words) == 1  # FOO_PASS, --foo-pass, pass
    return int(words[-1] == "pass" and typed and not numbered and before not in _PASSES)


def _words(name: str) -> list[str]:
    parts = _pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+").findall(name)
    return [part.lower() for part in parts]


def _hidden_by(name: str, value: str, strength: int | None = None) -> bool:
    strength = _strength(name) if strength is None else strength
    if (
        not strength
        or not value
        or value.partition("[")[0].lower() in _PLAIN
        or value.startswith(HIDDEN)
        or _is_placeholder(value)
    ):
        return False
    return strength == 2 or not (_is_number(value) or _is_path(value))


def _argument(argument: str, before: str) -> str:
    name, equals, value = argument.partition("=")
    if equals and value and _pattern(r"[-+~]*[\w.@/\[\]-]+").fullmatch(name) and "/" not in name[:1]:
        if _hidden_by(name, value) or (_is_bare_key(name) and _looks_random(value)):
            return f"{name}={HIDDEN}"
    elif before in ("-u", "--user", "--proxy-user") and ":" in argument and "/" not in argument:
        user, _, password = argument.partition(":")
        return argument if password.isdigit() or not password else f"{user}:{HIDDEN}"
    return redacted_document(argument)


def _hides_next(argument: str, before: str) -> Callable[[str], bool]:
    """How an argument is judged by the one in front of it."""
    if "=" in argument or len(argument) > 80:
        return _nothing
    if argument.startswith("-"):
        if _strength(argument):
            return lambda value: not _is_option(value) and _hidden_by(argument, value)
        bare = _is_bare_key(argument) or argument in ("-p", "-P", "-k")
        return (lambda value: not _is_option(value) and _looks_random(value)) if bare else _nothing
    told = before in ("--set", "-s", "-o", "--option", "--override", "set", "--config", "config")
    if _pattern(r"[A-Za-z][\w.-]*").fullmatch(argument) and (_strength(argument) or (told and _is_bare_key(argument))):
        return lambda value: not _is_option(value) and (_looks_random(value) or (told and _hidden_by(argument, value)))
    return _nothing


def _nothing(_: str) -> bool:
    return False


def _is_bare_key(name: str) -> bool:
    return _words(name)[-1:] in (["key"], ["pass"])


def _is_bare_pass(name: str) -> bool:
    return _words(name)[-1:] == ["pass"]


def _is_placeholder(value: str) -> bool:
    """It stands for a value that is elsewhere: `$NAME`, `${NAME}`, `$(cat file)`, `<token>`, `{token}`, `%(token)s`."""
    return value[:1] in ("$", "<", "{", "%") and _pattern(_PLACEHOLDER).fullmatch(value) is not None


def _is_option(value: str) -> bool:
    return _pattern(r"--[A-Za-z][\w.-]*(?:=.*)?|-[A-Za-z]").fullmatch(value) is not None


def _is_number(value: str) -> bool:
    return _pattern(r"[-+]?[\d_.,]+(?:[eE][-+]?\d+)?[%KMGTkmgt]?[iI]?[bB]?").fullmatch(value) is not None


def _is_path(value: str) -> bool:
    return (
        _pattern(r"(?:~|\.{1,2})?/[^\s]*|[A-Za-z]:\\.*|[\w./-]+\.(?:json|ya?ml|txt|pem|key|toml|cfg|env)").fullmatch(
            value
        )
        is not None
    )


def _is_mixed(value: str) -> bool:
    return any(one.isdigit() for one in value) and any(one.isalpha() for one in value)


def _looks_random(value: str) -> bool:
    """A password or a key rather than a word, a number or a path."""
    if _is_number(value) or _is_path(value) or value.startswith(("{", "[")) or _is_placeholder(value):
        return False
    return (len(value) >= 6 and _is_mixed(value)) or (len(value) >= 24 and not any(one in value for one in " ./_,"))
