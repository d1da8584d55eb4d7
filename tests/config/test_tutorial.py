"""What the tutorial has a reader write and type is valid; tests/e2e/test_tutorial.py follows it."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from extender.cli import PLUGIN_COMMANDS
from extender.commands.arguments import PLUGIN
from tests.config.kustomize import needs_kustomize, printed
from tests.config.shipped import FOLDER
from tests.documented import commands
from tests.processes import ROOT, run

PAGE: Final = ROOT / "docs" / "tutorial.md"
_FILE: Final = re.compile(r"^cat > (\S+) <<EOF\n(.*?)^EOF$", re.MULTILINE | re.DOTALL)
_BLOCK: Final = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _files() -> dict[str, str]:
    """By path what a reader writes."""
    return dict(_FILE.findall(PAGE.read_text()))


def _lines() -> list[str]:
    """Every command of the page, without what they print and what goes into files."""
    found: list[str] = []
    for block in _BLOCK.findall(_FILE.sub("", PAGE.read_text())):
        shown = [command for command, _ in commands(block)]
        found += shown or filter(None, block.splitlines())
    return found


def test_the_pod_is_sound_but_for_its_class_that_fits_nowhere(tmp_path: Path) -> None:
    files = _files()
    for name in ("gvisor.yaml", "web.yaml"):
        (tmp_path / name).write_text(files[f"my-cluster/{name}"])
    nodes = ("--manifests", str(FOLDER / "samples" / "cluster" / "nodes.yaml"))
    checked = run("check", "-f", str(tmp_path), *nodes, "-o", "json")
    assert checked.stderr == ""
    codes = re.findall(r'"code": ?"(\w+)"', checked.stdout)
    assert codes == ["fits_nowhere"], checked.stdout


def test_the_images_of_the_kustomization_are_those_of_the_shipped_folder() -> None:
    made: dict[str, Any] = yaml.safe_load(_files()["my-cluster/kustomization.yaml"])
    (resource,) = made["resources"]
    folder = (ROOT / "my-cluster" / resource).resolve()
    assert folder.is_relative_to(FOLDER)
    shipped = yaml.safe_load((folder / "kustomization.yaml").read_text())["images"]
    assert [each["name"] for each in made["images"]] == [each["name"] for each in shipped]
    built = re.findall(r"^docker build -t (\S+) \.$", PAGE.read_text(), re.MULTILINE)
    (extender, _) = made["images"]
    assert built == [f"{extender['newName']}:{extender['newTag']}"]


@needs_kustomize
def test_it_says_how_many_objects_are_created() -> None:
    count = len(list(yaml.safe_load_all(printed(FOLDER / "second-scheduler" / "beside-plugin"))))
    assert f"It prints {count} lines that end with `created`" in PAGE.read_text()


def test_every_command_of_ours_exists() -> None:
    ours = [line for line in _lines() if line.startswith(PLUGIN)]
    assert ours
    for line in ours:
        name, *words = shlex.split(line)[2:]
        entry = PLUGIN_COMMANDS[name]
        entry.load().parser(PLUGIN).parse_args(words)


def test_every_other_command_is_one_that_a_reader_was_told_to_have() -> None:
    needed = PAGE.read_text().partition("You need ")[2].partition("\n\n")[0]
    programs = {shlex.split(line)[0] for line in _lines() if "=" not in line.split()[0]}
    programs -= {"export", "mkdir", "sed"}
    assert programs == {"make", "kind", "docker", "kubectl"}
    assert [each for each in programs if each not in needed] == []
    for target in (line.split()[1] for line in _lines() if line.startswith("make ")):
        steps = ["make", "--dry-run", target]
        subprocess.run(steps, capture_output=True, cwd=ROOT, check=True)


def test_every_file_that_is_named_is_there_or_was_written_before() -> None:
    written = set(_files())
    named = set(re.findall(r"\bmy-cluster/\S+\.yaml", "\n".join(_lines())))
    assert named <= written


def test_the_page_says_what_was_tried_in_which_way() -> None:
    text = " ".join(PAGE.read_text().split())
    assert "ran as processes" in text
    assert "Nothing was tried in containers" in text
