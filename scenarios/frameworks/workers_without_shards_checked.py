# expect: workers-without-shards
# check: data --workers 8
"""Before a training: three large files of JSON lines for eight workers."""

import json
import os


def main():
    os.mkdir("data")
    for part in range(3):
        with open(f"data/part-{part:03d}.jsonl", "w") as out:
            out.writelines(
                json.dumps({"text": f"Birds of the coast, part {number}. " * 40}) + "\n" for number in range(200)
            )


main()
