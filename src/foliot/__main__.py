"""`python -m foliot` is the `foliot` command."""

from __future__ import annotations

import sys

from foliot.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
