"""``python -m sparsegp`` is the command ``sparsegp``."""

import sys

from ._command import main

sys.exit(main())
