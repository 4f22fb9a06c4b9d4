"""`python -m evenflow_lab.checking.simulation --seeds 1000`"""

import os
import sys

from evenflow_lab.checking.simulation.run import main

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a schedule: the same in every process that runs it.
        command = [sys.executable, "-m", "evenflow_lab.checking.simulation", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    raise SystemExit(main())
