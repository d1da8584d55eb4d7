"""Flags: Go's spelling, the environment, and one line for what is wrong."""

import argparse

import pytest

from extender.flags import Address, CommandParser, address, with_environment


def parser() -> CommandParser:
    made = CommandParser(prog="runtimeclass-extender serve", description="")
    made.add_argument("--bind", type=address, default=None)
    made.add_argument("--manifests", action="append", default=[])
    made.add_argument("-v", "--verbose", action="count", default=0)
    made.add_argument("pod", nargs="?")
    made.boolean_flag("--watch-list", default=True, help="")
    return made


def parse(*words: str, **environ: str) -> argparse.Namespace:
    made = parser()
    names = {f"RUNTIMECLASS_EXTENDER_SERVE_{name}": text for name, text in environ.items()}
    return made.parse_args(with_environment(made, "serve", words, names))


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
