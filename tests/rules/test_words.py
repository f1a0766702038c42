"""What findings say: short, in the reader's words, and with commands that can be pasted."""

from __future__ import annotations

import shlex

import pytest

from plain_words import RETIRED, findings_kept, numbers_in, offences, page_offences, words_in
from unstuck.evidence.finding import Finding, Remedy
from unstuck.rules.discovery import all_rules

RULES = sorted(all_rules())


@pytest.mark.parametrize("rule", RULES)
def test_every_finding_that_is_kept_is_worded_plainly(rule):
    assert [offence for finding in findings_kept(rule) for offence in offences(finding)] == []


@pytest.mark.parametrize("rule", RULES)
def test_the_page_of_a_rule_has_its_sections_and_plain_words(rule):
    assert list(page_offences(rule)) == []


@pytest.mark.parametrize("rule", RULES)
def test_every_command_that_is_offered_can_be_pasted(rule):
    """As one line that a shell takes apart, with no name in it that a shell would read otherwise."""
    commands = [
        command
        for finding in findings_kept(rule)
        for way in (finding.remedy, *finding.alternatives)
        for command in way.commands
    ]

    assert [command for command in commands if "\n" in command or not shlex.split(command)] == []


def a_finding(cause="It broke.", fix="Mend it.", **more):
    return Finding(cause=cause, seen=[], remedy=Remedy(fix), **more)


@pytest.mark.parametrize(
    ("cause", "what"),
    [
        ("word " * 21, "cause of 21 words"),
        ("It took 3 s, 4 s and 5 s.", "cause with 3 numbers"),
        ("Rank 1 has not got on for 10 s.", "got on"),
        ("The DataLoader over Spectra is slow.", "The DataLoader over"),
        ("Every epoch is one; each pass takes 3 s.", "each pass"),
    ],
)
def test_what_a_reader_would_have_to_translate_is_noticed(cause, what):
    found = list(offences(a_finding(cause, "Fix it.")))

    assert len(found) == 1
    assert what.lower() in found[0].lower()


def test_a_long_fix_is_noticed():
    assert list(offences(a_finding(fix="fix " * 26))) != []


def test_names_are_no_numbers():
    assert numbers_in("Rank 1 at step 12 of worker 0 (train.py:37) waited 5 s; sample 203 took `x=4`, 2 of 3.") == 3
    assert words_in("Set num_workers=5 · now") == 3


def test_every_retired_phrase_names_a_better_one():
    assert all(better for better in RETIRED.values())
