"""The documentation holds: links lead somewhere, rule pages say what the rules say, nothing names a private machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unstuck.rules.discovery import all_rules

ROOT = Path(__file__).parents[1]
RULE_PAGES = ROOT / "docs" / "rules"
NOT_OURS = {"unstuck-runs", "dist", "build", "__pycache__"}
HIDDEN_BUT_OURS = {".ci", ".gitignore"}
BINARY = {".png", ".gif", ".svg", ".rec", ".whl"}

# Put together from pieces, so that this file does not find itself.
HOMES = ("home", "Users", "root", "work")
PRIVATE_PATH = re.compile(rf"(?<![\w.}}\])>~])/(?:{'|'.join(HOMES)})/[\w.-]+")
HOSTS = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("download", "pytorch", "org"),
    ("npmjs", "org"),
    ("anaconda", "org"),
)
REGISTRY = re.compile("|".join(re.escape(".".join(parts)) for parts in HOSTS) + "|--(?:extra-)?" + "index-url")

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)|\!\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")


def project_files() -> list[Path]:
    """Every text file of the project; environments, runs and caches are not part of it."""
    top = [one for one in ROOT.iterdir() if not one.name.startswith(".") or one.name in HIDDEN_BUT_OURS]
    found = [path for one in top for path in ([one] if one.is_file() else sorted(one.rglob("*")))]
    return [
        path
        for path in found
        if path.is_file() and path.suffix not in BINARY | {".pyc"} and not NOT_OURS & set(path.relative_to(ROOT).parts)
    ]


def links_in(text: str) -> list[str]:
    """Where links and images point, code blocks left out."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [link or image for link, image in LINK.findall(re.sub(r"`[^`\n]*`", "", prose))]


def leads_nowhere(page: Path, link: str) -> bool:
    target = link.partition("#")[0]
    return bool(target) and not ELSEWHERE.match(link) and not (page.parent / target).exists()


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in project_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_every_relative_link_leads_to_a_file() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]
    dead = {f"{page.relative_to(ROOT)}: {link}" for page in pages for link in links_in(page.read_text())
            if leads_nowhere(page, link)}  # fmt: skip
    assert pages
    assert dead == set()


def test_a_dead_link_is_noticed() -> None:
    links = links_in("[a](nothing.md) ![b](../gone.png) [c](https://example.com) `[d](code.md)`")
    assert [link for link in links if leads_nowhere(ROOT / "docs" / "page.md", link)] == ["nothing.md", "../gone.png"]


def test_no_text_names_a_path_on_a_private_machine() -> None:
    assert lines_with(PRIVATE_PATH) == []


def test_no_text_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize("home", HOMES)
def test_a_private_path_is_noticed(home: str) -> None:
    assert PRIVATE_PATH.search(f'open("/{home}/ann/x.py")')


@pytest.mark.parametrize("text", ["/proc/1/root/dev/shm", "at/home/base", "~/work/data", "/data/work/x"])
def test_an_innocent_path_is_left_alone(text: str) -> None:
    assert not PRIVATE_PATH.search(text)


@pytest.mark.parametrize("name", sorted(all_rules()))
def test_a_rule_page_is_what_the_rule_says_of_itself(name: str) -> None:
    from unstuck.rules.pages import page

    written = RULE_PAGES / f"{name}.md"
    assert written.is_file(), "missing: `make docs` writes it"
    assert written.read_text() == page(all_rules()[name]), "out of date: `make docs` writes it anew"


def test_the_list_of_errors_is_what_the_rules_say() -> None:
    from unstuck.rules.pages import errors

    assert (ROOT / "docs" / "errors.md").read_text() == errors(all_rules()), "out of date: `make docs` writes it anew"


def test_the_pictures_show_what_the_views_show() -> None:
    import pictures

    kept = {name: (pictures.FOLDER / f"{name}.svg").read_text() for name in pictures.PICTURES}
    assert kept == {name: pictures.picture(name) for name in pictures.PICTURES}, "out of date: `make pictures`"


def test_no_page_is_left_of_a_rule_that_is_gone() -> None:
    pages = {path.stem for path in RULE_PAGES.glob("*.md")} - {"README", "index"}
    assert pages - set(all_rules()) == set()
