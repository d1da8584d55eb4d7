"""completion: scripts that make a shell complete these commands, and the answers to them.

The scripts contain no command and no flag: they call `PROGRAM __complete WORD…`, the last word
being the one to complete. click finds the candidates. The answer has the format of Go's cobra
(shell_completions.md, v1.9), which kubectl expects of a plugin too: a line for each candidate, with
its description after a tab, and a last line with a colon and the sum of the directives below.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

import click
from click.shell_completion import ShellComplete

from extender.cli.cluster_state import config_of
from extender.cli.commands import COMMANDS, program
from extender.cli.flags import Command, Flags, argument
from extender.cli.streams import write_out
from extender.cluster.api.config import context_names
from extender.cluster.manifest_objects import load_manifests
from extender.cluster.reading_once import ClusterReader

#: (name, description)
Found = Iterable[tuple[str, str]]

#: The directives: complete file names if there is no candidate, or complete no files.
_FILES: Final = 0
_NO_FILES: Final = 4

_PATIENCE_SECONDS: Final = 1.0


def complete(name: str, words: Sequence[str]) -> None:
    """name: of the program."""
    root = program(name)
    *before, last = words or [""]
    found = []
    if not before or before[0] in root.commands:
        if before:
            before[1:] = COMMANDS[before[0]].load().spelled_out(before[1:])
        found = ShellComplete(root, {}, name, "").get_completions(before, last)
    head, equals, _ = last.partition("=")
    start = f"{head}=" if equals and head.startswith("-") else ""
    lines = [
        f"{start}{each.value}\t{each.help}" if each.help else f"{start}{each.value}"
        for each in found
        # A line break would split a name in two; other control characters could move the cursor.
        if each.type == "plain" and f"{each.value}{each.help or ''}".isprintable()
    ]
    directive = _FILES if any(each.type != "plain" for each in found) else _NO_FILES
    write_out("".join(f"{line}\n" for line in [*lines, f":{directive}"]))


def contexts(flags: Flags, _: str, __: bool) -> Found:
    return [(each, "") for each in context_names(flags.kubeconfig)]


def runtime_classes(flags: Flags, _: str, __: bool) -> Found:
    """Every RuntimeClass and its handler. Raises UsageError."""
    if flags.manifests:
        found = load_manifests(flags.manifests).runtime_classes
    else:
        found = dict(ClusterReader(config_of(flags), silence=_PATIENCE_SECONDS).runtime_classes())
    return [(each.name, f"handler {each.handler}") for _, each in sorted(found.items())]


def pods(flags: Flags, last: str, is_plugin: bool) -> Found:
    """The pods, in a cluster only Pending ones, by NAME or NAMESPACE/NAME. Raises UsageError."""
    kind, slash, _ = last.partition("/")
    typed = f"{kind}/" if slash and kind in ("po", "pod", "pods") else ""
    if flags.manifests:
        namespace = "default" if is_plugin else ""
        found = load_manifests(flags.manifests).pods
    else:
        config = config_of(flags)
        namespace = config.namespace if is_plugin else ""
        found = dict(ClusterReader(config, silence=_PATIENCE_SECONDS).pending_pods())
    namespace = flags.namespace or namespace
    pods = [(*key.split("/", 1), pod.runtime_class_name) for key, pod in sorted(found.items())]
    if not namespace or (slash and not typed):
        return [(f"{of}/{name}", class_name) for of, name, class_name in pods]
    return [(f"{typed}{name}", class_name) for of, name, class_name in pods if of == namespace]


def _completion(name: str, flags: Flags) -> int:
    name = name.replace(" ", "-")
    script = files("extender.cli").joinpath(f"completion.{flags.shell}").read_text("utf-8")
    write_out(script.replace("PROGRAM", name).replace("FUNCTION", f"_{name.replace('-', '_')}"))
    return 0


_SHELLS: Final = ("bash", "zsh", "fish")

COMPLETION: Final = Command(
    "completion",
    "Prints a script that completes commands, flags, RuntimeClasses, pods and contexts.",
    _completion,
    [argument("shell", "|".join(_SHELLS), "your shell", type=click.Choice(_SHELLS))],
    examples=["bash", "zsh", "fish"],
    epilog="In bash: source <(… completion bash); in zsh, after compinit: source <(… completion"
    " zsh); in fish: … completion fish | source. kubectl 1.26 and later completes `kubectl"
    " runtimeclass` by itself, where kubectl_complete-runtimeclass is in the PATH; the scripts of"
    " the plugin are for kubectl-runtimeclass.",
)
