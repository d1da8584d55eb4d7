"""Standard streams that are closed, full or read no more, and foreign text on the terminal."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cases_file import cases
from tests.certificates import Authority
from tests.config.shipped import SCHEDULER_CONFIGURATION
from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    kubeconfig,
    node,
    runtime_class,
)
from tests.integration.test_live_following import serving_context
from tests.processes import ROOT, SAMPLES, called, run, running, until
from tests.terminals import on_a_terminal

CLUSTER: Final = f"--manifests {SAMPLES / 'cluster'}"
NODES_OF_KATA: Final = f"nodes kata {CLUSTER}"


def in_a_shell(command: str) -> subprocess.CompletedProcess[str]:
    """Bash runs `extender ARGUMENTS` as a console script does."""
    function = f'extender() {{ {shlex.quote(sys.executable)} -m extender "$@"; }}\n'
    return called("bash", "-c", function + command)


@pytest.mark.parametrize("words", [NODES_OF_KATA, "--help", "--version", "check --help"])
@pytest.mark.parametrize(
    ("stdout", "said"),
    [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")],
    ids=["closed", "full"],
)
def test_an_answer_that_cannot_be_written_is_one_line(words: str, stdout: str, said: str) -> None:
    result = in_a_shell(f"extender {words} {stdout}")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith(f"standard output: {said}\n")


@pytest.mark.parametrize("words", [NODES_OF_KATA, "--help", "check --help"])
def test_a_reader_that_has_gone_is_no_error(words: str) -> None:
    result = in_a_shell(f"exec 3> >(:); wait $!; extender {words} >&3; echo code $?")
    assert (result.stdout, result.stderr) == ("code 0\n", "")


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("words", ["nope", "nodes --frobnicate", f"nodes none {CLUSTER}"])
def test_an_error_that_nobody_reads_has_its_exit_code(words: str, stderr: str) -> None:
    result = in_a_shell(f"extender {words} {stderr}")
    assert (result.returncode, result.stdout) == (2, "")


def test_a_closed_stdin_holds_no_pod() -> None:
    result = in_a_shell(f"extender explain -f - {CLUSTER} <&-")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "standard input" in result.stderr


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&- >&- <&-"])
def test_a_service_starts_whatever_its_streams_are(
    streams: str, cluster: FakeApiServer, config: str
) -> None:
    serve = f"{sys.executable} -m extender serve --bind 127.0.0.1:0 --kubeconfig {config}"
    with subprocess.Popen(["bash", "-c", f"exec {serve} {streams}"], cwd=ROOT) as process:
        until(lambda: any(each.path == RUNTIME_CLASSES for each in cluster.requests))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@cases
def test_names_on_the_terminal_are_one_line_that_moves_nothing(words: str) -> None:
    name = os.fsdecode(b"a\nb\x1b[31m\r\xc2\x9b2J\xe2\x80\xae\xff")
    arguments = [word.replace("{}", name) for word in words.split()]
    result = called(sys.executable, "-m", "extender", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.endswith("\n")
    assert result.stderr.removesuffix("\n").isprintable()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_names_in_a_log_are_one_line_that_moves_nothing(tmp_path: Path, log_format: str) -> None:
    (tmp_path / "a.yaml").write_text("kind: RuntimeClass\nmetadata: {name: a}\nhandler: a\n")
    flags = ("--bind", "127.0.0.1:0", "--log-format", log_format, "--manifests", str(tmp_path))
    with running("serve", *flags) as server:
        name = b"b\n\x1b[31m\xc2\x9b\xff.yaml"
        (Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))).write_text("[]")
        server.wait_for_line("manifests not reloaded")
        _, verbose, _ = server.request("GET", "/readyz?verbose")
    assert b"last reload failed" in verbose
    assert b"\x1b" not in verbose
    lines = server.log.splitlines()
    assert all(line.isprintable() for line in lines)
    assert "Traceback" not in server.log
    if log_format == "json":
        assert all(isinstance(json.loads(line), dict) for line in lines)


def encrypted_key(tmp_path: Path, *form: str) -> tuple[Path, Path]:
    """(certificate, its key encrypted)"""
    files = Authority(tmp_path).issue("server")
    encrypted = tmp_path / "encrypted.key"
    words = ("-out", encrypted, *form, "-aes128", "-passout", "pass:abcd")
    assert called("openssl", "pkey", "-in", files.key, *words).returncode == 0
    return files.cert, encrypted


@pytest.mark.parametrize("form", [(), ("-traditional",)], ids=["PKCS 8", "traditional"])
def test_an_encrypted_key_is_told_at_once_and_asks_for_nothing(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    cert, key = encrypted_key(tmp_path, *form)
    code, said = on_a_terminal(
        *("serve", "--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster")),
        *("--tls-cert-file", str(cert), "--tls-private-key-file", str(key)),
    )
    assert code == 2
    assert said.count("\n") == 1
    assert f"--tls-private-key-file {key}: is encrypted" in said


def test_a_probe_with_an_encrypted_key_asks_for_nothing(tmp_path: Path) -> None:
    cert, key = encrypted_key(tmp_path)
    tls = {"certFile": str(cert), "keyFile": str(key), "insecure": True}
    extender = {"urlPrefix": "https://127.0.0.1:1", "enableHTTPS": True, "tlsConfig": tls}
    kind = {"apiVersion": SCHEDULER_CONFIGURATION, "kind": "KubeSchedulerConfiguration"}
    (tmp_path / "config.yaml").write_text(json.dumps({**kind, "extenders": [extender]}))
    code, said = on_a_terminal(
        *("check", "--scheduler-config", str(tmp_path / "config.yaml"), "--probe"),
        *("--manifests", str(SAMPLES / "cluster")),
    )
    assert code == 1
    assert "tlsConfig: the key is encrypted" in " ".join(said.split())


@pytest.mark.parametrize("mutual", [False, True], ids=["server", "mutual"])
def test_the_line_to_try_works_with_tls(tmp_path: Path, mutual: bool) -> None:
    authority = Authority(tmp_path)
    server_files, client = authority.issue("server"), authority.issue("client")
    flags = [
        *("--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster")),
        *("--tls-cert-file", str(server_files.cert)),
        *("--tls-private-key-file", str(server_files.key)),
        *(("--client-ca-file", str(authority.cert)) if mutual else ()),
    ]
    with running("serve", *flags) as server:
        line = server.wait_for_line("^  (curl .*)$")[1]
        said = in_a_shell(line)
        if mutual:
            assert "CLIENT.crt" in said.stderr  # an error that is heard
            line = line.replace("CLIENT.crt", str(client.cert))
            said = in_a_shell(line.replace("CLIENT.key", str(client.key)))
    assert said.returncode == 0, said.stderr
    assert "readyz check passed" in said.stdout


@pytest.mark.parametrize("command", ["serve", "webhook"])
def test_a_json_log_is_json_from_its_first_line_to_its_last(command: str) -> None:
    flags = ("--bind", "127.0.0.1:0", "--ops-bind", "127.0.0.1:0", "--log-format", "json")
    with running(command, *flags, "--manifests", str(SAMPLES / "cluster")) as server:
        # A worker that does not listen yet has nothing to answer, and ends without a word.
        until(lambda: server.request("GET", "/livez")[0] == 200)
        assert server.stop() == 0
        lines = [json.loads(line) for line in server.log.splitlines()]
    words = [line["msg"].split(" ")[0] for line in lines]
    assert words == ["listening", "probes", "serving", "stopping:"]
    assert re.match("curl -sS '?http://127.0.0.1:", lines[0]["try"])


@pytest.mark.parametrize("command", ["nodes", "serve"])
def test_urllib3_does_not_warn_of_a_certificate_that_is_not_looked_at(
    tmp_path: Path, command: str
) -> None:
    with FakeApiServer(tls=serving_context(Authority(tmp_path))) as server:
        server.put(NODES, node("a", handlers=["kata"]))
        server.put(RUNTIME_CLASSES, runtime_class("kata", "kata", {}))
        config = json.loads(kubeconfig(server.url))
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        flags = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        if command == "nodes":
            result = run("nodes", "kata", *flags)
            assert result.returncode == 0, result.stderr
            assert result.stderr == ""
        else:
            with running("serve", "--bind", "127.0.0.1:0", *flags) as service:
                service.wait_for_line(" INFO serving ")
                assert "Warning" not in service.log
                assert " WARNING " not in service.log
