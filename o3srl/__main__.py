"""`python -m o3srl` is the command `o3srl`."""

import sys

from o3srl.cli import main

sys.exit(main())
