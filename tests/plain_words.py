"""How findings are worded: what is too long, and the phrases that readers had to translate.

`python tests/plain_words.py [FAMILY or RULE...]` prints every offence of the findings in the kept evidence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from kept import KEPT
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence
from unstuck.evidence.finding import Finding
from unstuck.rules.discovery import HEADINGS, THREADS, all_rules, documentation
from unstuck.rules.engine import judge

MOST_IN_A_CAUSE, MOST_IN_A_FIX = 20, 25  # words
MOST_NUMBERS = 2

RETIRED = {
    r"got on\b|\bgets? on\b|getting on\b": "no progress for 10 s; is making progress",
    r"\bst(?:ands?|ood|anding) (?:at|in|still|here|there)\b|\bstands\b|\bstood\b": "is blocked at; stalled; is at byte",
    r"goes? round|without an end|without a word": "loops endlessly; silently",
    r"is waited for|trained on [\d.]": "per step: 57 ms waiting for data, 63 ms training",
    r"ended by SIG|SIG[A-Z]+ ended|\bdied of\b|said goodbye": "was killed (SIGKILL); raised KeyError",
    r"did not come to|never came to|gave up": "never reached all_reduce; timed out",
    r"\bhand(?:s|ed|ing)? over\b|packing up|packed up": "send; pickle",
    r"\bshared? out\b|\bdealt\b|\bdealing\b|given out|falls? to it": "split; sharded; assigned",
    r"\bannounces?\b|\bbrings?\b|\bbrought\b": "len() says 60, yields 36",
    r"\b[Tt]he DataLoader over\b": "DataLoader[Spectra] (x.py:24), then: the loader",
    r"\bmend(?:s|ed)?\b|\banew\b|\bfor ever\b|\bbesides\b|\bmeanwhile\b": "fix; again; forever; also; (drop)",
    r"\bat the (?:most|least)\b": "at most",
    r"[Ll]ea(?:ve|ving) .{0,40}\baway\b|in its place|in place of": "remove X; use Y instead",
    r"\b(?:some|no)body\b|\bwhoever\b|\bwho has\b": "the thing itself, or the passive",
    r"\bso that\b": "so",
    r"\b[Pp]rocessors?\b": "CPU core; CPU time",
    r"\b(?:an?|the|each|every|one|per|this|that|of|its|[\d,]+|new|first|last|whole) pass(?:es)?\b": "epoch",
    r"\btime-outs?\b|\bwhite space\b|\bcheck sums?\b": "timeout; whitespace; checksum",
    r"it (?:works|worked) for\b|\bit was looked at\b|\bto be had\b|\bhas to do\b": "loader: X; over a 1 s sample",
    r"\bis none\b|\bare none\b|\bgoes? through\b|\bwas through\b|\bis through\b": "say it plainly",
}
NAMED = (
    "(?:[Rr]ank|ranks|[Ww]orker|workers|batch|step|steps|epoch|sample|line|byte|pid|GPU|group|attempt|index|node|core"
    "|exit|code|signal|errno)"
)
NAMES = re.compile(
    rf"\b{NAMED} [\d,]+(?:(?:, | and | to |-)[\d,]+)*|`[^`]*`|\([^()]*:\d+\)|[\w./-]+:\d+|\([^()]*\(\w+\)\)"
)
NUMBER = re.compile(r"(?<![\w.:/=-])\d[\d,.]*(?![\w./])")


def words_in(text: str) -> int:
    return sum(any(letter.isalnum() for letter in word) for word in text.split())


def numbers_in(text: str) -> int:
    return len(NUMBER.findall(NAMES.sub("", text)))


def texts_of(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "cause", finding.cause
    yield from (("why", text) for text in finding.seen)
    yield "fix", finding.remedy.text
    yield from (("or", each.text) for each in finding.alternatives)


def offences(finding: Finding) -> Iterator[str]:
    if words_in(finding.cause) > MOST_IN_A_CAUSE:
        yield f"cause of {words_in(finding.cause)} words: {finding.cause}"
    if numbers_in(finding.cause) > MOST_NUMBERS:
        yield f"cause with {numbers_in(finding.cause)} numbers: {finding.cause}"
    for label, text in texts_of(finding):
        if label in ("fix", "or") and words_in(text) > MOST_IN_A_FIX:
            yield f"{label} of {words_in(text)} words: {text}"
        for pattern, better in RETIRED.items():
            met = re.search(pattern, text)
            if met:
                yield f"{label}: “{met[0]}” (better: {better}): {text}"
    for text in (finding.remedy, *finding.alternatives):
        yield from (f"two lines in one command: {command}" for command in text.commands if "\n" in command)


@cache
def findings_kept(rule: str) -> list[Finding]:
    """All different findings of a rule in all evidence that is kept."""
    found: dict[bytes, Finding] = {}
    for path in sorted(KEPT.glob("*/*.json")):
        for finding in judged(path):
            if finding.rule == rule:
                found.setdefault(msgspec.json.encode(finding), finding)
    return list(found.values())


@cache
def judged(path: Path) -> list[Finding]:
    evidence = msgspec.json.decode(path.read_bytes(), type=Evidence)
    return [finding for judgement in judge(Case(evidence)) for finding in judgement.findings]


def page_offences(rule: str) -> Iterator[str]:
    text = documentation(all_rules()[rule])
    headings = tuple(line[3:] for line in text.splitlines() if line.startswith("## "))
    if headings not in (HEADINGS, (*HEADINGS, THREADS)):
        yield f"page with the sections {', '.join(headings)}"
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for pattern, better in RETIRED.items():
        met = re.search(pattern, prose)
        if met:
            yield f"page: “{met[0]}” (better: {better})"


def asked_for(names: list[str]) -> list[str]:
    rules = all_rules()
    if not names:
        return sorted(rules)
    return sorted(
        name for name, rule in rules.items() if name in names or rule.check.__module__.split(".")[-2] in names
    )


def main(names: list[str]) -> None:
    total = 0
    for rule in asked_for(names):
        told = [offence for finding in findings_kept(rule) for offence in offences(finding)]
        told += page_offences(rule)
        total += len(told)
        if told:
            print(f"{rule}:", *(f"  {offence}" for offence in dict.fromkeys(told)), sep="\n")
    print(f"{total} offences")


if __name__ == "__main__":
    main(sys.argv[1:])
