# expect: undecodable-sample
# check: data
"""Two processes wrote into one file of JSON lines: some lines are halves of two records."""

import json
import os


def line(number):
    return json.dumps({"id": number, "text": f"Birds of the coast, part {number}. " * 20})


def main():
    os.mkdir("data")
    for part in range(3):
        lines = [line(number) for number in range(part * 200, part * 200 + 200)]
        if part == 1:
            lines[57] = lines[57][:311] + lines[58][:120]
            lines[143] = lines[143][:80] + lines[12]
        with open(f"data/part-{part:03d}.jsonl", "w") as out:
            out.write("\n".join(lines) + "\n")


main()
