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
# These do at the end of a name, or before one of MORE.
_LAST = {"token", "auth", "pwd", "pw", "cookie", "cookies", "sas"}
_MORE = {"header", "value", "string", "read", "write", "key", "code"}
# Whose key is a secret; a sort key or an image key is none.
_KEYS = {
    "api", "access", "secret", "private", "auth", "wandb", "account", "storage", "shared", "encryption", "signing",
    "ssh", "master", "service", "subscription", "license", "hf", "openai", "anthropic", "aws", "gcp", "azure",
    "comet", "neptune", "clearml", "hmac", "aes", "s3", "minio", "client", "consumer", "app", "deploy", "mlflow",
    "swanlab"
}  # fmt: skip
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
    "assistant", "system", "timestamp", "language", "lang", "task", "object", "patch", "latent", "boi", "eoi", "each"
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
        return HIDDEN
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
        or "xai-" in text or "pplx-" in text or "figd_" in text or "whsec_" in text or "shp" in text or ":AA" in text
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
        text = _pattern(_HEX).sub(rf"\1{HIDDEN}", text)
    if "=" in text or ":" in text:
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
    r"(?:x-(?:amz|goog|oss|cos)-[\w-]+|sig|signature|sign|[\w.-]*token|[\w.-]*secret|[\w.-]*passw(?:or)?d|pwd|pw|[\w.-]*key"
    r"|auth|code|sas|googleaccessid|awsaccesskeyid|key-pair-id|policy|credentials?|jwt|session|sessionid|ticket)"
)
_QUERY = rf"""(?i)([?&;](?:amp;)?)({_QUERY_NAMES})=([^&#\s"'<>]+)"""
_CONNECTION = (
    r"""(?i)(\b(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature|secretkey|accesskey)\s*=\s*)"""
    r"""(?!\[redacted)[^;"'\n]+(?=;|["'\n]|$)"""
)
_HEADER = (
    r"""(?i)\b((?:proxy-)?authorization\\?["']?\s*[:=]\s*\\?["']?)((?:[a-z]+\s+)?)([^\s"'\\,;\[][^\s"'\\,]*)"""
    r"""|\b((?:set-)?cookie:\s*)([^\s\[][^\n"']*)"""
)
_SCHEME = r"(?i)\b(bearer|basic)(\s+|%20)([a-z0-9._~+/-]{6,}=*)"
_OPTION = r"""(?<![\w-])(--[A-Za-z][\w.-]*)(\s+)(?!--[A-Za-z])([^\s"'\[]\S*)"""
_HEX = r"(?i)(\b(?:key|wandb|login|token)\b[\"'\s:=]{1,6})[0-9a-f]{40}\b"
_ASSIGNED = (
    r"""(?i)(?<![\w.-])(-{0,2}(?:(?:api|access|secret|private|account)\s+key(?:\s+(?:provided|given|is))?"""
    r"""|[a-z_][\w.-]*))(\\?["']?\]?\s*(?::=|[:=])\s*)"""
    r"""(\\"(?:[^"\\]|\\(?!").)*\\"|\\'(?:[^'\\]|\\(?!').)*\\'|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"'\[{(<\\][^\s"'&;]*)"""
)
_SHAPES = (
    r"(?<![A-Za-z0-9])(?:"
    r"hf_(?=[A-Za-z]{0,40}\d|[a-z]{0,40}[A-Z])[A-Za-z0-9]{12,}|sk-(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{12,}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}|gh[pousr]_(?=[a-z]{0,40}[0-9A-Z])[A-Za-z0-9]{8,}|github_pat_\w{16,}"
    r"|gl(?:pat|dt|rt|cbt)-[\w-]{12,}|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|AKIA[A-Z0-9]{6,}|ASIA[A-Z0-9]{16}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|npm_[A-Za-z0-9]{16,}|dckr_pat_[\w-]{12,}"
    r"|pypi-[\w-]{32,}|SG\.[\w-]{16,}\.[\w-]{16,}|do[opr]_v1_[0-9a-f]{32,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{24,}"
    r"|r8_[A-Za-z0-9]{24,}|nvapi-[\w-]{16,}|gsk_[A-Za-z0-9]{20,}|dapi[0-9a-f]{32}|hv[sb]\.[\w-]{20,}|whsec_[\w+/=-]{16,}"
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
    if found[0].startswith(";") and not _strength(name) and not _looks_random(value):
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
    return f"{name}{space}{HIDDEN}" if _hidden_by(name, value) else found[0]


def _assigned(found: re.Match[str]) -> str:
    name, sign, value = found.groups()
    opening, inner, closing = _unquoted(value)
    strength = 2 if " " in name else _strength(name)
    if not strength and opening and ("=" in inner or ":" in inner):  # `"body": "{\\"password\\": …}"`
        return f"{name}{sign}{opening}{_pattern(_ASSIGNED).sub(_assigned, inner)}{closing}"
    if not strength or inner.startswith(HIDDEN[:-1]):
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
    last = words[-1]
    if last == "id":  # an access key's own
        return 2 if words[-2:-1] in (["key"], ["secret"]) and _strength("_".join(words[:-1])) else 0
    if last in _ABOUT:
        return 0
    if not _ALWAYS.isdisjoint(words) or (last == "key" and len(words) > 1 and words[-2] in _KEYS):
        return 2
    if last in _MORE and len(words) > 1 and words[-2] in _LAST:
        last, words = words[-2], words[:-1]
    if last == "tokens":
        return int(not {"api", "access", "auth", "hf"}.isdisjoint(words))
    return int(last in _LAST and (last != "token" or _TEXTUAL.isdisjoint(words)))


def _words(name: str) -> list[str]:
    parts = _pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+").findall(name)
    return [part.lower() for part in parts]


def _hidden_by(name: str, value: str, strength: int | None = None) -> bool:
    strength = _strength(name) if strength is None else strength
    if (
        not strength
        or not value
        or value.partition("[")[0].lower() in _PLAIN
        or value.startswith(("<", "$", "%(", "{", HIDDEN))
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
    if _is_number(value) or _is_path(value) or value.startswith(("<", "$", "{", "[")):
        return False
    return (len(value) >= 6 and _is_mixed(value)) or (len(value) >= 24 and not any(one in value for one in " ./_,"))
