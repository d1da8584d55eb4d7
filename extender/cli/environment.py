"""Variables that look like a flag's, and that no flag reads, are reported as misspelt.

Kubernetes itself sets some, in every pod of a namespace that has a Service whose name begins like
the program's: these are left alone.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final

from extender.cli.flags import PREFIX
from extender.model.errors import UsageError
from extender.model.reasons import printable
from extender.model.similar import did_you_mean

#: Read by extender.model.names before any flag is.
PURE_PYTHON: Final = f"{PREFIX}PURE_PYTHON"

#: How alike two variables are that differ in two letters: the prefix is the same in all.
_ALIKE: Final = 0.93

#: Begins NAME=VALUE that the kubelet sets for a Service (pkg/kubelet/envvars/envvars.go, v1.36.2).
#: NAME_PORT could also be a person's, and is a URL.
_SERVICE_LINK: Final = re.compile(
    r"[^=]*_(SERVICE_HOST=|SERVICE_PORT[=_]|PORT_[0-9]+_(TCP|UDP|SCTP)[=_]|PORT=(tcp|udp|sctp)://)"
)


def check_spelling(environ: Mapping[str, str], known: Callable[[], Collection[str]]) -> None:
    """Raises UsageError for a variable with our prefix that no flag reads."""
    names = {
        name
        for name, value in environ.items()
        if name.startswith(PREFIX) and not _SERVICE_LINK.match(f"{name}={value}")
    } - {PURE_PYTHON}
    # known imports every command.
    variables = known() if names else ()
    for name in sorted(names.difference(variables)):
        same_flag = [each for each in variables if each.endswith(name.removeprefix(PREFIX[:-1]))]
        near = did_you_mean(name, same_flag) or did_you_mean(name, variables, _ALIKE)
        hint = near or "; the flags are in --help"
        raise UsageError(f"environment: no flag reads {printable(name)}{hint}")
