"""The scripts with openssl make certificates that strict verifiers take."""

import base64
import shutil
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.certificates import Authority
from tests.config.shipped import FOLDER
from tests.processes import ROOT, called

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")

_KUBECONFIG = FOLDER / "control-plane" / "make-kubeconfig.sh"


def _run(script: Path, *arguments: object, code: int = 0) -> str:
    """What the script says: on stderr where it fails."""
    done = called(script, *arguments)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_the_kubeconfig_holds_a_certificate_of_the_clusters_ca_and_nobody_else_may_read_it(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    for mode in (None, 0o666):
        if mode:
            file.chmod(mode)
        url = "https://api.example.com:6443"
        said = _run(_KUBECONFIG, url, authority.cert, authority.key, file)
        assert said.startswith(f"wrote {file}: user runtimeclass-extender at {url}, valid until ")
        assert said.count("\n") == 1
        assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.glob("kubeconfig*")] == ["kubeconfig"]
    kubeconfig = yaml.safe_load(file.read_text())
    cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    assert cluster["server"] == url
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.cert.read_bytes()
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
    (name,) = certificate.subject  # in no group
    assert (name.oid, name.value) == (NameOID.COMMON_NAME, "runtimeclass-extender")
    ca = x509.load_pem_x509_certificate(authority.cert.read_bytes())
    certificate.verify_directly_issued_by(ca)


@pytest.mark.parametrize(
    "server", ["api.example.com:6443", "http://api.example.com", "https://", ""]
)
def test_a_server_without_tls_is_refused_and_nothing_written(tmp_path: Path, server: str) -> None:
    authority = Authority(tmp_path)
    file = tmp_path / "kubeconfig"
    said = _run(_KUBECONFIG, server, authority.cert, authority.key, file, code=2)
    assert "must begin with https://" in said
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("kubeconfig*"))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_what_the_pages_have_an_operator_make_is_not_committed() -> None:
    made = ["certificates/client/tls.key", "kubeconfig", "my-cluster/values.yaml"]
    assert called("git", "check-ignore", *made).stdout.split() == made


def test_called_without_arguments_the_script_says_how() -> None:
    assert _run(_KUBECONFIG, code=2).startswith("usage: ")
