"""`python -m evenflow.cli`."""

import sys

from evenflow.cli.app import main

sys.exit(main())
