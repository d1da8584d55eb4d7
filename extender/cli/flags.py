"""Flags, arguments and help by click, in the spelling of Kubernetes components."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from extender import __version__
from extender.cli.streams import ended_by_signals, written_out
from extender.model.errors import UsageError
from extender.model.reasons import printable
from extender.model.similar import similar

PROGRAM: Final = "runtimeclass-extender"

#: The name of the program as a kubectl plugin, instead of PROGRAM.
PLUGIN: Final = "kubectl runtimeclass"

#: The prefix of every environment variable that sets a flag.
PREFIX: Final = "RUNTIMECLASS_EXTENDER_"

#: Not a flag: extender.model.names reads it before flags are parsed.
PURE_PYTHON: Final = f"{PREFIX}PURE_PYTHON"

#: The start of NAME=VALUE that the kubelet sets for a Service whose name begins like the program's
#: (pkg/kubelet/envvars/envvars.go, v1.36.2). NAME_PORT has to be a URL: a person could set it too.
_SERVICE_LINK: Final = re.compile(
    r"[^=]*_(SERVICE_HOST=|SERVICE_PORT[=_]|PORT_[0-9]+_(TCP|UDP|SCTP)[=_]|PORT=(tcp|udp|sctp)://)"
)

#: The values of a command's flags and arguments by their names.
Flags = SimpleNamespace


class Boolean(click.types.BoolParamType):
    """--flag, --flag=true or --flag=false, never --flag true, as in Go."""


class Text(click.types.StringParamType):
    """A string. Colons separate the values in the variable of a repeatable flag."""

    envvar_list_splitter = os.pathsep


class Name(Text):
    """finder: the function of extender.cli.completion that returns the existing names."""

    def __init__(self, finder: str) -> None:
        self._finder = finder

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        find = getattr(import_module("extender.cli.completion"), self._finder)
        with suppress(UsageError):
            found = find(Flags(**ctx.params), incomplete, ctx.find_root().info_name == PLUGIN)
            names = [each for each in found if each[0].startswith(incomplete)]
            return [CompletionItem(name, help=about) for name, about in names]
        return []


class Flag(click.Option):
    def get_help_spec(self, ctx: click.Context) -> str:
        """The flag as it is typed."""
        return super().get_help_spec(ctx).replace(" [=", "[=")

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The environment variable if the value comes from it, otherwise the flag."""
        if ctx and ctx.get_parameter_source(self.name) is ParameterSource.ENVIRONMENT:
            return str(self.envvar)
        return "/".join(self.opts)


#: The type of a value by its metavar, the placeholder in the help.
_TYPES: Final = {
    **dict.fromkeys(("FILE", "PATH", "[FILE]..."), click.Path(readable=False)),
    **dict.fromkeys(("CLASS", "OLD", "NEW"), Name("runtime_classes")),
    "[POD]": Name("pods"),
}


def flag(spec: str, help: str, *, name: str = "", **settings: Any) -> Flag:
    """spec: as the help shows it, "-n, --namespace NAME"; settings: as click.Option has them."""
    names, _, metavar = spec.replace(", ", ",").partition(" ")
    settings = {"type": _TYPES.get(metavar, Text()), "metavar": metavar or None, **settings}
    shows = settings.get("default") not in (None, "false")
    spellings = [*names.split(","), *filter(None, [name])]
    return Flag(spellings, help=help, show_default=shows, **settings)


def boolean(spec: str, help: str, *, default: bool | None = False) -> Flag:
    shown = None if default is None else str(default).lower()
    return flag(f"{spec} [=true|false]", help, type=Boolean(), default=shown)


def choice(spec: str, help: str, *, values: Iterable[str], default: str | None = None) -> Flag:
    texts = list(map(str, values))
    shown = default and str(default)
    return flag(f"{spec} {'|'.join(texts)}", help, type=click.Choice(texts), default=shown)


def argument(name: str, metavar: str, help: str, **settings: Any) -> click.Argument:
    settings = {"type": _TYPES.get(metavar, Text()), **settings}
    return click.Argument([name], metavar=metavar, help=help, **settings)


class Command(click.Command):
    """One command. run: takes the program's name; returns the exit code, raises UsageError.

    own: its flags and arguments. shared: the flags that other commands have too.
    """

    def __init__(
        self,
        name: str,
        about: str,
        run: Callable[[str, Flags], int],
        own: Sequence[click.Parameter] = (),
        shared: Sequence[click.Parameter] = (),
        *,
        examples: Sequence[str] = (),
        epilog: str = "",
    ) -> None:
        super().__init__(name, params=[*own, *shared], help=about, epilog=epilog)
        self.run, self.own, self.shared, self.examples = run, own, shared, examples
        for each in self.flags():
            words = f"{PREFIX}{name}_{each.opts[-1].strip('-')}"
            each.envvar = words.upper().replace("-", "_")
        click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(self)

    def flags(self) -> list[Flag]:
        return [each for each in self.params if isinstance(each, Flag)]

    def spelled_out(self, words: Sequence[str]) -> list[str]:
        """The words with a value in each boolean flag, since the next word is never its value."""
        flags = (each for each in self.flags() if isinstance(each.type, Boolean))
        booleans = {name: each.opts[-1] for each in flags for name in each.opts}
        parts = ((word, *word.partition("=")) for word in words)
        return [
            f"{booleans[name]}={value or 'true'}" if name in booleans else word
            for word, name, _, value in parts
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.spelled_out(args))

    def invoke(self, ctx: click.Context) -> int:
        """ctx.obj is called with the flags before the command runs."""
        flags = Flags(**ctx.params)
        root = ctx.find_root()
        root.obj(flags)
        return self.run(str(root.info_name), flags)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_text(str(self.help))
        if self.examples:
            with formatter.section("Examples"):
                for each in self.examples:
                    formatter.write(f"  {ctx.command_path} {each}".rstrip() + "\n")
        formatter.write_paragraph()
        self.format_usage(ctx, formatter)
        others = [each for each in self.get_params(ctx) if each not in self.own]
        for title, parameters in ("Flags", self.own), ("Shared flags", others):
            if parameters:
                found = filter(None, (each.get_help_record(ctx) for each in parameters))
                with formatter.section(title):
                    formatter.write_dl([*found])
        self.format_epilog(ctx, formatter)


class Later(click.Command):
    """A listed command. Its module is imported when it is called: that of serve takes 0.2 s."""

    def __init__(self, name: str, about: str, module: str) -> None:
        super().__init__(name, short_help=about)
        self._module = module

    def load(self) -> Command:
        with ended_by_signals():
            module = import_module(f"extender.{self._module}")
        command = getattr(module, str(self.name).upper().replace("-", "_"))
        assert isinstance(command, Command)
        return command

    def make_context(self, *words: Any, **settings: Any) -> click.Context:
        command = self.load()
        with written_out():
            return command.make_context(*words, **settings)


class Program(click.Group):
    """The commands in the given order. A variable that begins with PREFIX sets a flag."""

    def __init__(self, name: str, commands: Iterable[Later]) -> None:
        super().__init__(
            name,
            commands=list(commands),
            help="Why pods with a RuntimeClass run where they do, or nowhere.",
            subcommand_metavar="COMMAND",
            options_metavar="",
            epilog=f"{name} COMMAND --help tells the flags of a command. Every flag is also read"
            f" from the environment: {PREFIX}<COMMAND>_<FLAG>.",
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def check_spelling(environ: Mapping[str, str], known: Callable[[], Collection[str]]) -> None:
    """Raises UsageError for a variable with our prefix that no flag reads.

    known: returns the variables of all flags. Called only if one is set: it imports all commands.
    """
    own = (each for each in environ.items() if each[0].startswith(PREFIX))
    names = {name for name, value in own if not _SERVICE_LINK.match(f"{name}={value}")}
    variables = known() if names - {PURE_PYTHON} else ()
    flags = sorted(each.removeprefix(PREFIX) for each in variables)
    for name in sorted(names - {PURE_PYTHON, *variables}):
        asked = name.removeprefix(PREFIX)
        of_commands = [each for each in flags if each.endswith(f"_{asked}")]
        near = next(iter(of_commands or similar(asked, flags)), "")
        hint = f'did you mean "{PREFIX}{near}"?' if near else "the flags are in --help"
        raise UsageError(f"environment: no flag reads {printable(name)}; {hint}")
