"""The scripts with openssl make certificates that strict verifiers take."""

import base64
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.certificates import Authority
from tests.config.shipped import FOLDER
from tests.processes import ROOT, running

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")

_CERTIFICATES = FOLDER / "remote" / "make-certificates.sh"
_KUBECONFIG = FOLDER / "control-plane" / "make-kubeconfig.sh"


def _run(script: Path, *arguments: object) -> str:
    done = subprocess.run(
        [str(script), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _strict(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca" / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.check_hostname = False
    return context


def test_server_and_scheduler_trust_each_other(tmp_path: Path) -> None:
    _run(_CERTIFICATES, tmp_path)
    server, client = tmp_path / "server", tmp_path / "client"
    flags = (
        "serve",
        "--bind=127.0.0.1:0",
        "--manifests=scheduler-config/samples/cluster",
        f"--tls-cert-file={server}/tls.crt",
        f"--tls-private-key-file={server}/tls.key",
        f"--client-ca-file={server}/ca.crt",
    )
    context = _strict(tmp_path)
    context.load_cert_chain(client / "tls.crt", client / "tls.key")
    with (
        running(*flags) as service,
        socket.create_connection(service.address) as plain,
        context.wrap_socket(plain) as tls,
    ):
        tls.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert tls.recv(4096).startswith(b"HTTP/1.1 200")


def test_certificates_are_for_one_purpose_and_keys_are_private(tmp_path: Path) -> None:
    _run(_CERTIFICATES, tmp_path)
    for name, purpose in (
        ("server", ExtendedKeyUsageOID.SERVER_AUTH),
        ("client", ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        certificate = x509.load_pem_x509_certificate((tmp_path / name / "tls.crt").read_bytes())
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [purpose]
        assert (tmp_path / name / "tls.key").stat().st_mode & 0o077 == 0
    names = x509.load_pem_x509_certificate(
        (tmp_path / "server" / "tls.crt").read_bytes()
    ).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    expected = ["runtimeclass-extender.runtimeclass-extender.svc"]
    assert names.value.get_values_for_type(x509.DNSName) == expected


def test_run_again_the_ca_stays_and_the_certificates_are_new(tmp_path: Path) -> None:
    _run(_CERTIFICATES, tmp_path)
    files = ("ca/ca.crt", "server/tls.crt", "client/tls.crt")
    before = [(tmp_path / each).read_bytes() for each in files]
    _run(_CERTIFICATES, tmp_path)
    after = [(tmp_path / each).read_bytes() for each in files]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, False]


def test_the_kubeconfig_holds_a_certificate_of_the_clusters_ca(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    _run(_KUBECONFIG, "https://api.example.com:6443", authority.cert, authority.key, file)
    kubeconfig = yaml.safe_load(file.read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    assert cluster["server"] == "https://api.example.com:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.cert.read_bytes()
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert name.value == "runtimeclass-extender"
    assert len(list(certificate.subject)) == 1  # in no group
    ca = x509.load_pem_x509_certificate(authority.cert.read_bytes())
    certificate.verify_directly_issued_by(ca)


def test_nobody_else_may_read_the_kubeconfig_whatever_the_file_was_before(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    for mode in (None, 0o666):
        if mode:
            file.chmod(mode)
        said = _run(_KUBECONFIG, "https://api.example.com", authority.cert, authority.key, file)
        assert "PRIVATE KEY" not in said
        assert "client-key-data" not in said
        assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.glob("kubeconfig*")] == ["kubeconfig"]


@pytest.mark.parametrize(
    "server", ["api.example.com:6443", "http://api.example.com", "https://", ""]
)
def test_a_server_without_tls_is_refused_and_nothing_written(tmp_path: Path, server: str) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    done = subprocess.run(
        [str(_KUBECONFIG), server, str(authority.cert), str(authority.key), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "must begin with https://" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("kubeconfig*"))


def test_the_script_says_which_kubeconfig_it_has_written(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    said = _run(_KUBECONFIG, "https://api.example.com", authority.cert, authority.key, file)
    assert said.startswith(
        f"wrote {file}: user runtimeclass-extender at https://api.example.com, valid until "
    )
    assert said.count("\n") == 1


def test_no_page_lets_the_shell_open_a_kubeconfig_for_all_to_read() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for line in page.read_text().splitlines():
            if line.endswith(("> kubeconfig", "> kubeconfig)")):
                assert line.startswith("(umask 077 && "), f"{page.name}: {line}"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
@pytest.mark.parametrize(
    "file",
    [
        "certificates/ca/ca.key",
        "certificates/client/tls.key",
        "kubeconfig",
        "my-cluster/kustomization.yaml",
        "my-webhook/kustomization.yaml",
        "scheduler-config/webhook/components/openssl/generated/tls.key",
    ],
)
def test_what_the_pages_have_an_operator_make_is_not_committed(file: str) -> None:
    ignored = subprocess.run(["git", "check-ignore", "--quiet", file], cwd=ROOT, check=False)
    assert ignored.returncode == 0


@pytest.mark.parametrize("script", [_CERTIFICATES, _KUBECONFIG], ids=lambda each: each.name)
def test_called_without_arguments_a_script_says_how(script: Path) -> None:
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
