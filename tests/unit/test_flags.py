"""Flags: Go's spelling, the environment, the help, and one line for what is wrong."""

import re
import shlex
from typing import Final

import click
import pytest

from extender.cli.commands import COMMANDS, PLUGIN_COMMANDS, program
from extender.cli.flags import PLUGIN, PROGRAM, Command, Flags, argument, boolean, flag
from extender.main import main
from extender.server.starting import Address, address
from tests.cases_file import cases

SERVE: Final = Command(
    "serve",
    "For these tests.",
    lambda _, __: 0,
    [
        flag("--bind HOST:PORT", "", type=address),
        flag("--manifests PATH", "", multiple=True),
        flag("-v, --verbose", "", count=True, type=None),
        argument("pod", "[POD]", "", required=False),
        boolean("-w, --watch-list", "", default=True),
    ],
)


def parse(*words: str, **environ: str) -> Flags:
    names = {f"RUNTIMECLASS_EXTENDER_SERVE_{name}": text for name, text in environ.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, text in names.items():
            patch.setenv(name, text)
        return Flags(**SERVE.make_context("serve", [*words]).params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("127.0.0.1:8888", Address("127.0.0.1", 8888), id="IPv4"),
        pytest.param("[::1]:80", Address("::1", 80), id="IPv6 in brackets"),
        pytest.param("localhost:0", Address("localhost", 0), id="name, any port"),
        pytest.param(":8888", Address("0.0.0.0", 8888), id="no host: all addresses"),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: Address) -> None:
    assert address(text) == expected


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "h:65536", "::1:80", "h:٣"])
def test_anything_else_is_no_address(text: str) -> None:
    with pytest.raises(click.BadParameter):
        address(text)


def test_a_boolean_flag_never_takes_the_word_behind_it() -> None:
    flags = parse("--watch-list", "default/web")
    assert flags.watch_list is True
    assert flags.pod == "default/web"
    assert parse("-w", "default/web").pod == "default/web"
    for word in ("--watch-list=false", "-w=false", "--watch-list=F", "--watch-list=0"):
        assert parse(word).watch_list is False
    assert parse(WATCH_LIST="false").watch_list is False
    assert parse("--watch-list", WATCH_LIST="false").watch_list is True


def test_the_command_line_wins_over_the_environment() -> None:
    assert parse(BIND="127.0.0.1:1").bind == Address("127.0.0.1", 1)
    assert parse("--bind=127.0.0.1:2", BIND="127.0.0.1:1").bind == Address("127.0.0.1", 2)
    assert parse("--bind", "127.0.0.1:2", BIND="127.0.0.1:1").bind == Address("127.0.0.1", 2)


def test_repeated_flags_come_from_one_variable() -> None:
    assert parse(MANIFESTS="/a:/b").manifests == ("/a", "/b")
    assert parse(VERBOSE="2").verbose == 2
    assert parse("-v", VERBOSE="2").verbose == 1


@cases
def test_what_is_wrong_ends_with_code_2_and_one_line(
    words: list[str],
    environ: dict[str, str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(f"RUNTIMECLASS_EXTENDER_SERVE_{name}", text)
    assert main(["serve", *words]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{PROGRAM} serve: ")
    assert told.endswith(f"see {PROGRAM} serve --help\n")
    assert told.count("\n") == 1
    assert said in told
    assert all(f"RUNTIMECLASS_EXTENDER_SERVE_{name}" in told for name in environ)


def test_a_misspelt_command_is_told_what_it_may_have_been_meant_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["explian"]) == 2
    assert "'explian'. Did you mean 'explain'?; see " in capsys.readouterr().err


# The help


def help_of(name: str, command: str) -> str:
    root = program(name)
    with root.make_context(name, [command]) as context:
        loaded = COMMANDS[command].load()
        return loaded.get_help(click.Context(loaded, parent=context, info_name=command))


HELP: Final = {
    f"{name} {command}": help_of(name, command)
    for name, known in ((PROGRAM, COMMANDS), (PLUGIN, PLUGIN_COMMANDS))
    for command in known
}


@pytest.mark.parametrize("called", HELP)
def test_the_help_is_a_sentence_then_examples_then_flags_as_they_are_typed(called: str) -> None:
    """No name of a Python variable, no braces; a boolean's value stands behind = only."""
    text, command = HELP[called], COMMANDS[called.rpartition(" ")[2]].load()
    about, examples, *_ = text.split("\n\n")
    assert " ".join(about.split()) == command.help
    assert re.fullmatch(r"[A-Z][^.]*( [^.]*)*\.", " ".join(about.split()))
    assert examples.startswith(f"Examples:\n  {called}")
    assert text.index("Usage: ") > text.index("Examples:")
    if command.own and command.shared:
        assert text.index("\nFlags:") < text.index("\nShared flags:") < text.index("--verbose")
    assert "-h, --help" in text
    assert not re.search(r"[A-Z]+_[A-Z_]+\]|[{}]|default: (False|True)\]", text)
    has_flags = bool(command.shared)
    assert ("[=true|false]" in text) is has_flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_help_is_accepted(name: str) -> None:
    command, called = COMMANDS[name].load(), PLUGIN if name in PLUGIN_COMMANDS else PROGRAM
    assert command.examples
    root = program(called)
    for example in command.examples:
        with root.make_context(called, [name]) as context:
            command.make_context(name, shlex.split(example), parent=context)


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["help", "explain"], ["explain", "--help"], ["explain", "-h"]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"{HELP[f'{PROGRAM} explain']}\n"
    for words in (["version"], ["--version"], ["nodes", "--version"]):
        assert main(words) == 0
        assert re.fullmatch(rf"{PROGRAM} \d\S*\n", capsys.readouterr().out)
    assert main(["help"]) == main(["--help"]) == main(["-h"]) == 0
    assert main([]) == 2
    assert main(["help", "nothing"]) == 2
    assert "'nothing'" in capsys.readouterr().err
