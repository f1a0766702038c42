# expect: healthy
# check: data --decode
"""JSON lines as people write them: blank lines, other alphabets, nested values, no newline at the end, gzip."""

import gzip
import json
import os


def line(number):
    record = {"id": number, "text": f"Vögel der Küste 🐦 «{number}» \u0000".replace("\u0000", "\\u0001") * 20}
    record |= {"tags": ["bird", None], "meta": {"year": 1999.5, "ok": True}} if number % 2 else {"lang": "de"}
    return json.dumps(record, ensure_ascii=number % 3 == 0)


def main():
    os.mkdir("data")
    for part in range(3):
        lines = [line(number) for number in range(part * 200, part * 200 + 200)]
        lines.insert(100, "")
        text = ("\r\n" if part == 2 else "\n").join(lines).encode()
        with gzip.open(f"data/part-{part:03d}.jsonl.gz", "wb") as out:
            out.write(text + (b"\n\n" if part else b""))


main()
