"""Flags: Go's spelling, the environment, and one line for what is wrong."""

import argparse
import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cli import COMMANDS, PLUGIN_COMMANDS, main
from extender.commands.arguments import PLUGIN, policy_of
from extender.environment import (
    PREFIX,
    PURE_PYTHON,
    check_spelling,
    unread_variables,
    variables_of,
    with_environment,
)
from extender.flags import PROGRAM, Address, CommandParser, UsageError, address, words_meant


def parser() -> CommandParser:
    made = CommandParser("runtimeclass-extender serve", "", command="serve")
    made.add_argument("--bind", type=address, default=None)
    made.add_argument("--manifests", action="append", default=[])
    made.add_argument("-v", "--verbose", action="count", default=0)
    made.add_argument("pod", nargs="?")
    made.boolean_flag("--watch-list", default=True, help="")
    return made


def parse(*words: str, **environ: str) -> argparse.Namespace:
    made = parser()
    names = {f"RUNTIMECLASS_EXTENDER_SERVE_{name}": text for name, text in environ.items()}
    return made.read(with_environment(made, words, names))


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
    with pytest.raises(argparse.ArgumentTypeError):
        address(text)


def test_a_boolean_flag_never_takes_the_word_behind_it() -> None:
    flags = parse("--watch-list", "default/web")
    assert flags.watch_list is True
    assert flags.pod == "default/web"
    assert parse("--watch-list=false").watch_list is False


def test_the_command_line_wins_over_the_environment() -> None:
    assert parse(BIND="127.0.0.1:1").bind == Address("127.0.0.1", 1)
    assert parse("--bind=127.0.0.1:2", BIND="127.0.0.1:1").bind == Address("127.0.0.1", 2)
    assert parse("--bind", "127.0.0.1:2", BIND="127.0.0.1:1").bind == Address("127.0.0.1", 2)


def test_repeated_flags_come_from_one_variable() -> None:
    assert parse(MANIFESTS="/a:/b").manifests == ["/a", "/b"]
    assert parse(VERBOSE="2").verbose == 2
    assert parse("-v", VERBOSE="2").verbose == 1


@pytest.mark.parametrize(
    ("words", "environ"),
    [(["--bind=x"], {}), (["--nothing"], {}), ([], {"BIND": "x"}), ([], {"VERBOSE": "many"})],
)
def test_what_is_wrong_ends_with_code_2_and_one_line(
    words: list[str], environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(*words, **environ)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(f"RUNTIMECLASS_EXTENDER_SERVE_{name}" in said for name in environ)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--bnd", "::1"], "--bnd; did you mean --bind? see ", id="a flag"),
        pytest.param(["--watchlist=false"], "; did you mean --watch-list? see ", id="with a value"),
        pytest.param(["-bind=a"], "; did you mean --bind? see ", id="one dash too few"),
        pytest.param(["--zzz"], "unrecognized arguments: --zzz; see ", id="like no flag"),
        pytest.param(["a", "bind"], "unrecognized arguments: bind; see ", id="no flag at all"),
    ],
)
def test_a_misspelt_flag_is_told_what_it_may_have_been_meant_for(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(*words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("explian", "'explian'; did you mean explain? see ", id="misspelt"),
        pytest.param("get", "unknown command 'get'; see ", id="like no command"),
    ],
)
def test_a_misspelt_command_is_told_what_it_may_have_been_meant_for(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert said in capsys.readouterr().err


def test_a_misspelt_word_of_any_length_is_compared_in_no_time() -> None:
    """At 100 characters; of a million the comparison would take minutes."""
    assert words_meant(["--bind" * 200_000], ["--bind"]) == ""


@pytest.mark.parametrize("command", ["serve", "explain", "nodes", "check"])
@pytest.mark.parametrize("value", ["auto", "strict", "off", None])
def test_every_way_to_check_handlers_is_chosen_by_its_name(command: str, value: str | None) -> None:
    """auto is the default, and may be asked for."""
    words = ["--handler-check", value] if value else []
    of_nodes = ["kata"] if command == "nodes" else []
    flags = COMMANDS[command].load().parse(PROGRAM, [*words, *of_nodes])
    assert policy_of(flags).handler_check.name == (value or "auto").upper()


# The help


def texts() -> dict[str, str]:
    return {
        f"{program} {name}": entry.load().parser(program).format_help()
        for program, known in ((PROGRAM, COMMANDS), (PLUGIN, PLUGIN_COMMANDS))
        for name, entry in known.items()
    }


HELP: Final = texts()


@pytest.mark.parametrize("program", HELP)
def test_the_help_of_a_command_shows_values_as_they_are_typed(program: str) -> None:
    """No name of a Python variable, no braces; a boolean's value stands behind = only."""
    text = HELP[program]
    assert text.startswith(f"usage: {program} ")
    assert not re.search(r"[A-Z]+_[A-Z_]+\]|[{}]", text)
    assert "[=true|false]" in text or program.endswith("completion")
    assert "(default: False)" not in text
    assert "(default: True)" not in text


@pytest.mark.parametrize("program", HELP)
def test_the_help_of_a_command_tells_a_variable_that_is_read(program: str) -> None:
    named = set(re.findall(r"RUNTIMECLASS_EXTENDER_\w+", HELP[program]))
    entry = COMMANDS[program.rpartition(" ")[2]]
    assert named <= set(variables_of(entry.load().parser(PROGRAM)))
    assert named or program.endswith("completion")


@pytest.mark.parametrize("program", HELP)
def test_every_command_has_version_help_and_verbose(program: str) -> None:
    assert all(each in HELP[program] for each in ("-h, --help", "--version", "-v, --verbose"))


def test_choices_are_told_as_one_writes_them() -> None:
    text = HELP["runtimeclass-extender explain"]
    assert "--handler-check auto|strict|off" in text
    assert "--nodes all " in text


# Variables that nobody reads


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        pytest.param("SERVE_HANDLER_CHEK", "SERVE_HANDLER_CHECK", True, id="a letter is missing"),
        pytest.param("SERVE_PORT", "SERVE_BIND", False, id="no flag is called so"),
        pytest.param("BIND", "SERVE_BIND", True, id="the command is missing"),
        pytest.param("SERVE_\n", "SERVE_BIND", False, id="a line break"),
    ],
)
def test_a_variable_that_no_flag_reads_is_told(name: str, known: str, near: bool) -> None:
    environ = {f"{PREFIX}{name}": "1", f"{PREFIX}{known}": "1", "PATH": "/"}
    with pytest.raises(UsageError) as raised:
        check_spelling(unread_variables(environ), [f"{PREFIX}{known}"])
    said = str(raised.value)
    assert said.isprintable()
    assert (f"did you mean {PREFIX}{known}?" in said) is near


def test_every_variable_of_every_flag_is_known() -> None:
    known = {
        name for each in COMMANDS.values() for name in variables_of(each.load().parser(PROGRAM))
    }
    names = unread_variables(dict.fromkeys(known, "x"))
    assert set(names) == known, "a service link could take the place of a flag's variable"
    check_spelling(names, known)
    assert unread_variables({PURE_PYTHON: "1"}) == []


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
    """What the kubelet sets for a Service whose name begins as ours do: never a misspelt one."""
    assert unread_variables(service_links(f"runtimeclass-extender{suffix}", ip, ports)) == []


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
