"""A fleet whose nodes are not there, but report."""

import time

from evenflow.fleet import processes
from evenflow.fleet.config import read_config
from evenflow.fleet.coordinator import Coordinator
from evenflow.fleet.folder import SharedFolder

NODES = '[[nodes]]\nname = "a"\n[[nodes]]\nname = "b"\n'


def written(tmp_path, text):
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    return path


class Pretended:
    """Nodes that are not there, but report."""

    def __init__(self, tmp_path, monkeypatch, settings=""):
        path = written(
            tmp_path,
            f"[fleet]\nsamples = 4\nevery = 1\n{settings}\n"
            + NODES
            + "".join(
                f'[[queries]]\nname = "{q}"\nfunction = "jobs:counted"\nnode = "{n}"\n'
                for q, n in (("x", "a"), ("y", "a"), ("z", "b"), ("w", "b"))
            ),
        )
        self.fleet = read_config(path)
        self.started, self.killed = [], []
        monkeypatch.setattr(processes, "start", self._start)
        monkeypatch.setattr(
            processes, "kill", lambda process: self.killed.append(process["pid"]) or True
        )
        self.coordinator = Coordinator(self.fleet, str(path))
        self.folder = SharedFolder(self.fleet.folder)
        self.busy, self.behind = {}, {}

    def _start(self, module, arguments, log):
        self.started.append(arguments[3])
        return 1

    def report(self, *nodes, silent=0.0):
        now = self.folder.assignment()
        for node in nodes:
            queries = {
                q: {
                    "state": "running",
                    "error": "",
                    "batches": 1,
                    "busy": self.busy.get(q, {}),
                    "known": time.time() - self.behind.get(q, 0.0),
                }
                for q, n in now.queries.items()
                if n == node
            }
            self.folder.report(
                node,
                {
                    **processes.identity(),
                    "incarnation": now.incarnations[node],
                    "time": time.time() - silent,
                    "queries": queries,
                },
            )

    def burst(self, phases):
        last = int(time.time() // self.fleet.sample)
        self.busy = {
            q: {str(last - i): 0.8 if i % 2 == phase else 0.1 for i in range(10)}
            for q, phase in phases.items()
        }
