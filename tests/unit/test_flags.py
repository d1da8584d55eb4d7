"""Flags: Go's spelling, the environment, the help, and one line for each error."""

import re
import shlex
from typing import Final

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.commands import COMMANDS, PLUGIN_COMMANDS, program
from extender.cli.flags import (
    PLUGIN,
    PREFIX,
    PROGRAM,
    PURE_PYTHON,
    Command,
    Flags,
    argument,
    boolean,
    check_spelling,
    flag,
)
from extender.main import _variables, main
from extender.model.errors import UsageError
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
    with pytest.MonkeyPatch.context() as patch:
        for name, text in environ.items():
            patch.setenv(f"RUNTIMECLASS_EXTENDER_SERVE_{name}", text)
        return Flags(**SERVE.make_context("serve", [*words]).params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("127.0.0.1:8888", Address("127.0.0.1", 8888), id="IPv4"),
        pytest.param("[::1]:80", Address("::1", 80), id="IPv6 in brackets"),
        pytest.param("localhost:0", Address("localhost", 0), id="name, any port"),
        pytest.param(":8888", Address("", 8888), id="no host: all addresses"),
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
    """No Python names, no braces; a boolean flag takes its value only after =."""
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
    assert ("[=true|false]" in text) is bool(command.shared)


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


# Variables that no flag reads


@cases
def test_a_variable_that_no_flag_reads_is_told(name: str, known: str, near: bool) -> None:
    environ = {f"{PREFIX}{name}": "1", f"{PREFIX}{known}": "1", "PATH": "/"}
    with pytest.raises(UsageError) as raised:
        check_spelling(environ, lambda: [f"{PREFIX}{known}"])
    said = str(raised.value)
    assert said.isprintable()
    assert (f'did you mean "{PREFIX}{known}"?' in said) is near


def test_every_variable_of_every_flag_is_known_and_could_be_misspelt() -> None:
    known = _variables()
    assert f"{PREFIX}CAN_DELETE_OUTPUT" in known
    assert f"{PREFIX}PODS_CLASS" in known
    check_spelling(dict.fromkeys({*known, PURE_PYTHON}, "x"), lambda: known)
    for name in known:
        with pytest.raises(UsageError, match=name):
            check_spelling({name: "x"}, lambda: known - {name})  # noqa: B023 (called at once)


PORT_NAMES: Final = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", fullmatch=True)


@given(
    st.from_regex(r"(-[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?)?", fullmatch=True),
    st.ip_addresses().map(str),
    st.lists(
        st.tuples(PORT_NAMES, st.integers(1, 65535), st.sampled_from(["TCP", "UDP", "SCTP"])),
        min_size=1,
        max_size=3,
    ),
)
def test_no_service_that_a_cluster_can_have_breaks_a_start(
    suffix: str, ip: str, ports: list[tuple[str, int, str]]
) -> None:
    """The kubelet's variables for a Service with a name like ours never count as misspelt."""
    check_spelling(service_links(f"runtimeclass-extender{suffix}", ip, ports), list)


def service_links(service: str, ip: str, ports: list[tuple[str, int, str]]) -> dict[str, str]:
    """As pkg/kubelet/envvars/envvars.go FromServices, v1.36.2; ports: (name, number, protocol)."""

    def variable(text: str) -> str:
        return text.replace("-", "_").upper()

    name = variable(service)
    found = {f"{name}_SERVICE_HOST": ip, f"{name}_SERVICE_PORT": str(ports[0][1])}
    host = f"[{ip}]" if ":" in ip else ip
    first = ports[0]
    found[f"{name}_PORT"] = f"{first[2].lower()}://{host}:{first[1]}"
    for port, number, protocol in ports:
        link = f"{name}_PORT_{number}_{protocol}"
        found |= {
            f"{name}_SERVICE_PORT_{variable(port)}": str(number),
            link: f"{protocol.lower()}://{host}:{number}",
            f"{link}_PROTO": protocol.lower(),
            f"{link}_PORT": str(number),
            f"{link}_ADDR": ip,
        }
    return found


def test_a_crash_is_one_line_and_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["classes", 5]) == 2  # type: ignore[list-item]  # a fault of our own
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r": internal error: AttributeError: .* \(.*flags\.py:\d+\); please", line)
