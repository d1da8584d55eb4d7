"""How many examples of each law are tried: HYPOTHESIS_PROFILE is quick (the default) or deep."""

import os
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings

#: How long an example takes is the machine's affair.
_COMMON: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=50, **_COMMON)
settings.register_profile("deep", max_examples=1_000, **_COMMON)
# A mutant is killed by any example: which one is the smallest is of no interest.
settings.register_profile(
    "mutants",
    max_examples=50,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    **_COMMON,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
