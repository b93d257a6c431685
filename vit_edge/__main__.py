"""`python -m vit_edge` is `vit-edge`."""

import sys

from vit_edge.cli import main

sys.exit(main())
