"""The address and credentials of a cluster, loaded and reloaded by the kubernetes package.

The package is imported only to reach a cluster: importing it takes a fifth of a second.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from extender.cluster.input_files import FileError, Signature, read_file, signature_of
from extender.kubernetes.yaml_documents import YamlError, yaml_documents
from extender.model.errors import UsageError

_LOG: Final = logging.getLogger(__name__)

#: Where Kubernetes mounts a service account (pkg/serviceaccount, v1.36.2).
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Enough for a hundred clusters of 100 KB each, certificates included.
_MAX_CONFIG_BYTES: Final = 16 * 2**20

#: The shortest time between a load of the credentials and a reload after a 401.
RELOAD_SECONDS: Final = 1.0

_FILE_KEYS: Final = {"tokenFile", "client-certificate", "client-key", "certificate-authority"}

Headers = tuple[tuple[str, str], ...]


class ConfigError(UsageError):
    """There is no usable configuration. The text is one line: the fault, its place and the fix."""


class CredentialsError(Exception):
    """The credentials can't be read at the moment."""


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class ClusterConfig:
    """The address and credentials of a cluster; safe to use from any thread.

    It is loaded again, with a new generation, after a 401 or when one of its files has changed.
    """

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        impersonated: Mapping[str, Any] | None = None,
    ) -> None:
        """impersonated: `as` and `as-groups`, in place of the kubeconfig's. Raises ConfigError."""
        self._impersonated = impersonated
        self._context = context
        self._kubeconfig = kubeconfig
        in_pod = not (kubeconfig or context) and os.environ.get("KUBERNETES_SERVICE_HOST")
        self._in_cluster = bool(in_pod) and (SERVICE_ACCOUNT / "token").exists()
        self._lock = threading.Lock()
        self._loaded_at = time.monotonic()
        self.generation = 0
        #: The default namespace, as in kubectl.
        self.namespace = "default"
        #: The impersonation headers of each request (`as` of the kubeconfig); mostly empty.
        self.impersonation: Headers = ()
        self._configuration, self._files = self._load()
        self._seen = _signatures(self._files)

    @property
    def host(self) -> str:
        return str(self._configuration.host)

    def current(self) -> tuple[Any, int]:
        """The package's Configuration and its generation."""
        with self._lock:
            if _signatures(self._files) != self._seen:
                self._reload()
            return self._configuration, self.generation

    def rejected(self) -> None:
        """Reload everything after a 401, exec plugins included."""
        with self._lock:
            if time.monotonic() - self._loaded_at >= RELOAD_SECONDS:
                self._reload()

    def authorization(self) -> str | None:
        """The Authorization header of a request made now. Raises CredentialsError."""
        configuration, _ = self.current()
        try:
            with self._lock:
                settings = configuration.auth_settings()
        except Exception as error:  # any type: an unreadable token file
            raise CredentialsError(f"credentials: {one_line(error)}") from None
        value = settings.get("BearerToken", {}).get("value")
        return " ".join(value.split()) if value else None

    def _reload(self) -> None:
        self._loaded_at = time.monotonic()
        seen = _signatures(self._files)
        try:
            self._configuration, self._files = self._load()
            seen = _signatures(self._files)
            self.generation += 1
        except ConfigError as error:
            _LOG.error("kubeconfig not reloaded, keeping the previous one: %s", error)
        self._seen = seen

    def _load(self) -> tuple[Any, list[Path]]:
        import kubernetes.client
        import kubernetes.config

        configuration: Any = kubernetes.client.Configuration()
        if self._in_cluster:
            load: Any = kubernetes.config.load_incluster_config
            try:
                load(client_configuration=configuration)
            except Exception as error:  # any type: an unreadable service account
                where = f"service account in {SERVICE_ACCOUNT}"
                raise ConfigError(f"{where}: {one_line(error)}") from None
            self.namespace = _in_cluster_namespace()
            self.impersonation = self._headers({}, "--as")
            return configuration, [SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"]
        found = _read(self._kubeconfig)
        found.load(configuration, self._context)
        chosen = found.contexts.get(self._context or found.current, {})
        self.namespace = str(chosen.get("namespace") or "default")
        name = chosen.get("user")
        user = found.users.get(str(name), {})
        self.impersonation = self._headers(user, f"{found.given}: user {name}")
        return configuration, [*found.paths, *found.files]

    def _headers(self, user: Mapping[str, Any], where: str) -> Headers:
        try:
            return _impersonation(self._impersonated or user)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None


def _signatures(files: list[Path]) -> tuple[Signature, ...]:
    """The signatures of the files that exist."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(signature_of(file))
    return tuple(found)


def _in_cluster_namespace() -> str:
    try:
        text = (SERVICE_ACCOUNT / "namespace").read_text("utf-8")
    except (OSError, ValueError):
        return "default"
    return text.strip() or "default"


@dataclass(slots=True)
class _Kubeconfig:
    """The merged kubeconfigs of `paths`; of entries with the same name the first one counts.

    given: their name in messages. files: the token, certificate and key files that they name.
    """

    paths: list[Path]
    given: str
    current: str = ""
    contexts: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)

    def add(self, path: Path, document: Mapping[str, Any]) -> None:
        self.current = self.current or str(document.get("current-context") or "")
        for name, context in _entries(document, "contexts", "context"):
            self.contexts.setdefault(name, context)
        for name, user in _entries(document, "users", "user"):
            self.users.setdefault(name, user)
        for section, inner in (("users", "user"), ("clusters", "cluster")):
            for _, entry in _entries(document, section, inner):
                names = (entry[key] for key in _FILE_KEYS & entry.keys())
                self.files += [path.parent / name for name in names if isinstance(name, str)]

    def load(self, configuration: Any, context: str | None) -> None:
        """Fill the package's Configuration. Raises ConfigError."""
        import kubernetes.config

        names = ", ".join(sorted(self.contexts))
        where = os.pathsep.join(map(str, self.paths))
        if context and context not in self.contexts:
            raise ConfigError(
                f"--context {context}: not in {where}; it has {names or 'no contexts'}"
            )
        context = context or self.current
        if not context:
            raise ConfigError(
                f"{self.given}: no current-context; choose one with --context: "
                f"{names or 'it has none'}"
            )
        load: Any = kubernetes.config.load_kube_config
        try:
            load(config_file=where, context=context, client_configuration=configuration)
        except Exception as error:  # any type: a malformed file
            raise ConfigError(f"{self.given}: {one_line(error)}") from None


def _read(kubeconfig: str | None) -> _Kubeconfig:
    """The kubeconfig of the flag, else of KUBECONFIG, else ~/.kube/config. Raises ConfigError."""
    variable = os.environ.get("KUBECONFIG")
    text = kubeconfig or variable or "~/.kube/config"
    words = [text] if kubeconfig else text.split(os.pathsep)
    paths = [Path(word).expanduser() for word in words if word]
    if not kubeconfig:
        paths = [path for path in paths if path.exists()]
    if not paths:
        raise ConfigError(
            f"no cluster: not in a pod, and {text} does not exist; "
            "give --kubeconfig FILE or --manifests PATH"
        )
    kind = "--kubeconfig " if kubeconfig else "KUBECONFIG=" if variable else "kubeconfig "
    found = _Kubeconfig(paths, kind + os.pathsep.join(map(str, paths)))
    for path in paths:
        try:
            documents = list(yaml_documents(read_file(path, _MAX_CONFIG_BYTES)))
        except (FileError, YamlError) as error:
            raise ConfigError(f"{kind}{path}: {error}") from None
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise ConfigError(f"{kind}{path}: not a kubeconfig")
        found.add(path, documents[0])
    return found


def context_names(kubeconfig: str | None) -> list[str]:
    """The names that --context accepts. Raises ConfigError."""
    return sorted(_read(kubeconfig).contexts)


def _entries(
    document: Mapping[str, Any], section: str, inner: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and values of a section's entries; a malformed value is empty."""
    entries = document.get(section)
    for each in entries if isinstance(entries, list) else ():
        if isinstance(each, dict):
            value = each.get(inner)
            yield str(each.get("name")), value if isinstance(value, dict) else {}


def _impersonation(user: Mapping[str, Any]) -> Headers:
    """The impersonation headers of a kubeconfig's user, one for each group; empty without `as`.

    Follows NewImpersonatingRoundTripper of client-go's transport/round_trippers.go, v1.36.2, for
    names and groups. Raises ValueError.
    """
    name, groups = user.get("as") or "", user.get("as-groups") or []
    if user.get("as-uid") or user.get("as-user-extra"):
        raise ValueError("as-uid and as-user-extra are not supported")
    if not isinstance(groups, list) or not all(isinstance(each, str) for each in (name, *groups)):
        raise ValueError("as: expected a text, and as-groups a list of texts")
    if groups and not name:
        raise ValueError("as-groups needs as")
    sent = [("Impersonate-User", name), *(("Impersonate-Group", each) for each in groups)]
    # http.client encodes headers as Latin-1: each character becomes one byte of the UTF-8 text.
    return tuple((key, each.encode().decode("latin-1")) for key, each in sent if name)
