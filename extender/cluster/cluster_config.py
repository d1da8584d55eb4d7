"""The address and credentials of a cluster, read by the kubernetes package and again on changes.

The package is imported only when a cluster is asked for: importing it takes a fifth of a second.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from extender.cluster.impersonation import Headers, impersonation_of
from extender.flags import UsageError
from extender.input_files import FileError, Signature, check_file, read_file, signature_of
from extender.yaml_documents import YamlError, yaml_documents

_LOG: Final = logging.getLogger(__name__)

#: Where Kubernetes mounts a service account (pkg/serviceaccount, v1.36.2).
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Enough for a hundred clusters of 100 KB each, certificates included.
_MAX_CONFIG_BYTES: Final = 16 * 2**20

#: The shortest time between two loads of the credentials, which a 401 causes.
RELOAD_SECONDS: Final = 1.0

_FILE_KEYS: Final = frozenset(
    {"tokenFile", "client-certificate", "client-key", "certificate-authority"}
)


class ConfigError(UsageError):
    """There is no usable configuration; one line: what is wrong, where, and how to correct it."""


class CredentialsError(Exception):
    """The credentials can't be read at the moment."""


def _signatures(files: list[Path]) -> tuple[Signature, ...]:
    """Of those files that are there."""
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(signature_of(file))
    return tuple(found)


class ClusterConfig:
    """The address and credentials of a cluster; safe to use from any thread.

    It is loaded again when one of its files has changed, or after a 401 (`rejected`): each time
    with a new generation.
    """

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        """Raises ConfigError."""
        self._context = context
        self._in_cluster = not (kubeconfig or context) and _is_in_cluster()
        self._paths = [] if self._in_cluster else _kubeconfig_paths(kubeconfig)
        self._given = _given(kubeconfig)
        self._lock = threading.Lock()
        self._loaded_at = time.monotonic()
        self.generation = 0
        #: The namespace of objects that are named without one, as in kubectl: the context's, else
        #: "default".
        self.namespace = "default"
        #: The impersonation headers of each request (`as` of the kubeconfig); mostly none.
        self.impersonation: Headers = ()
        self._configuration, self._files = self._load()
        self._seen = _signatures(self._files)

    @property
    def host(self) -> str:
        return str(self._configuration.host)

    @property
    def warnings(self) -> list[str]:
        """What a person should know about the configuration."""
        if self._configuration.verify_ssl:
            return []
        return [f"insecure-skip-tls-verify: anybody may answer for the API server {self.host}"]

    def current(self) -> tuple[Any, int]:
        """The package's Configuration and its generation."""
        with self._lock:
            if _signatures(self._files) != self._seen:
                self._reload()
            return self._configuration, self.generation

    def rejected(self) -> None:
        """The API server has answered 401: load everything again, exec plugins included."""
        with self._lock:
            if time.monotonic() - self._loaded_at >= RELOAD_SECONDS:
                self._reload()

    def authorization(self) -> str | None:
        """The Authorization header of a request made now."""
        configuration, _ = self.current()
        try:
            with self._lock:
                settings = configuration.auth_settings()
        except Exception as error:  # of any type, for an unreadable token file
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
            _LOG.error("configuration not reloaded, keeping the one before: %s", error)
        self._seen = seen

    def _load(self) -> tuple[Any, list[Path]]:
        from kubernetes.client import Configuration

        configuration: Any = Configuration()
        if self._in_cluster:
            _load_in_cluster(configuration)
            self.namespace = _in_cluster_namespace()
            return configuration, [SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"]
        documents = _load_kubeconfig(configuration, self._paths, self._context, self._given)
        self.namespace = str(_chosen(documents, self._context).get("namespace") or "default")
        self.impersonation = _impersonation(documents, self._context, self._given)
        return configuration, [*self._paths, *_files_named(documents)]


def _is_in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


#: How a message names a kubeconfig: by what it was given by.
_Given = Callable[[object], str]


def _given(kubeconfig: str | None) -> _Given:
    if kubeconfig:
        return lambda where: f"--kubeconfig {where}"
    if os.environ.get("KUBECONFIG"):
        return lambda where: f"KUBECONFIG={where}"
    return lambda where: f"kubeconfig {where}"


def _kubeconfig_paths(kubeconfig: str | None) -> list[Path]:
    text = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    words = [text] if kubeconfig else text.split(os.pathsep)
    paths = [Path(word).expanduser() for word in words if word]
    found = paths if kubeconfig else [path for path in paths if path.exists()]
    if not found:
        raise ConfigError(
            f"no cluster: not in a pod, and {text} does not exist; "
            "give --kubeconfig FILE or --manifests PATH"
        )
    return found


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _load_in_cluster(configuration: Any) -> None:
    import kubernetes.config

    load: Any = kubernetes.config.load_incluster_config
    try:
        load(client_configuration=configuration)
    except Exception as error:  # the package raises all kinds
        raise ConfigError(f"service account in {SERVICE_ACCOUNT}: {one_line(error)}") from None


def _load_kubeconfig(
    configuration: Any, paths: list[Path], context: str | None, given: _Given
) -> list[tuple[Path, Any]]:
    import kubernetes.config

    load: Any = kubernetes.config.load_kube_config
    where = os.pathsep.join(map(str, paths))
    documents = _documents(paths, given)
    _check_files(documents, given)
    _check_context(where, documents, context, given)
    try:
        load(config_file=where, context=context, client_configuration=configuration)
    except Exception as error:  # of any type, for a faulty file
        raise ConfigError(f"{given(where)}: {one_line(error)}") from None
    return documents


def _documents(paths: list[Path], given: _Given) -> list[tuple[Path, Any]]:
    documents = []
    for path in paths:
        try:
            found = list(yaml_documents(read_file(path, _MAX_CONFIG_BYTES)))
        except (FileError, YamlError) as error:
            raise ConfigError(f"{given(path)}: {error}") from None
        if len(found) != 1 or not isinstance(found[0], dict):
            raise ConfigError(f"{given(path)}: not a kubeconfig")
        documents.append((path, found[0]))
    return documents


def _in_cluster_namespace() -> str:
    """As inClusterClientConfig.Namespace of client-go's tools/clientcmd, v1.36.2."""
    of_variable = os.environ.get("POD_NAMESPACE")
    if of_variable:
        return of_variable
    try:
        text = (SERVICE_ACCOUNT / "namespace").read_text("utf-8")
    except (OSError, ValueError):
        return "default"
    return text.strip() or "default"


def _entries(document: Mapping[str, Any], section: str) -> Iterator[dict[str, Any]]:
    """What is named in a section of a kubeconfig; nothing of what can't be read."""
    entries = document.get(section)
    found = entries if isinstance(entries, list) else ()
    return (each for each in found if isinstance(each, dict))


def _contexts(documents: list[tuple[Path, Any]]) -> dict[str, Any]:
    """The contexts by name; with several files, the first one that has a context wins."""
    found: dict[str, Any] = {}
    for _, document in documents:
        for each in _entries(document, "contexts"):
            found.setdefault(str(each.get("name")), each.get("context"))
    return found


def _chosen(documents: list[tuple[Path, Any]], context: str | None) -> dict[str, Any]:
    """The selected context; empty where it can't be read."""
    current = (document.get("current-context") for _, document in documents)
    chosen = _contexts(documents).get(context or next(filter(None, current), ""))
    return chosen if isinstance(chosen, dict) else {}


def _impersonation(
    documents: list[tuple[Path, Any]], context: str | None, given: _Given
) -> Headers:
    """Raises ConfigError."""
    name = _chosen(documents, context).get("user")
    for path, document in documents:
        for each in _entries(document, "users"):
            if each.get("name") == name:
                user = each.get("user")
                try:
                    return impersonation_of(user if isinstance(user, dict) else {})
                except ValueError as error:
                    raise ConfigError(f"{given(path)}: user {name}: {error}") from None
    return ()


def context_names(kubeconfig: str | None) -> list[str]:
    """The names that --context accepts. Raises ConfigError."""
    documents = _documents(_kubeconfig_paths(kubeconfig), _given(kubeconfig))
    return sorted(_contexts(documents))


def _check_files(documents: list[tuple[Path, Any]], given: _Given) -> None:
    """Raises ConfigError for a pipe: the kubernetes package would wait for it."""
    for file in _files_named(documents):
        try:
            check_file(file)
        except FileError as error:
            if file.exists():
                raise ConfigError(f"{given('').rstrip(' =')}: {file} {error}") from None


def _check_context(
    where: str, documents: list[tuple[Path, Any]], context: str | None, given: _Given
) -> None:
    names = sorted(_contexts(documents))
    if context and context not in names:
        raise ConfigError(
            f"--context {context}: not in {where}; it has {', '.join(names) or 'no contexts'}"
        )
    if not context and not any(document.get("current-context") for _, document in documents):
        raise ConfigError(
            f"{given(where)}: no current-context; choose one with --context: "
            f"{', '.join(names) or 'it has none'}"
        )


def _files_named(documents: list[tuple[Path, Any]]) -> list[Path]:
    """The files that kubeconfigs refer to: tokens and certificates."""
    files = []
    for path, document in documents:
        for section, inner in (("users", "user"), ("clusters", "cluster")):
            for each in _entries(document, section):
                entry = each.get(inner)
                if isinstance(entry, dict):
                    names = (entry[key] for key in _FILE_KEYS & entry.keys())
                    files += [path.parent / name for name in names if isinstance(name, str)]
    return files
