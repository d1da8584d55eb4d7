"""python -m extender."""

import sys

from extender.main import main

sys.exit(main())
