"""A disk and a clock with faults under a server: ``tests/disk/disk.c``."""

import subprocess
from pathlib import Path


def library(folder):
    """Compiles it into this folder."""
    file = folder / "disk.so"
    source = Path(__file__).parent.parent / "disk" / "disk.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", file, source, "-ldl"], check=True)
    return file


class Disk:
    """Faults of the files in ``folder/data``, and of the clock, for the process that has this environment."""

    def __init__(self, library, folder):
        self._folder = folder
        # Without it there are no faults, not even of the clock.
        (folder / "data").mkdir()
        self.environment = {"LD_PRELOAD": str(library), "STATESTORE_TEST_DISK": str(folder / "control")}
        self.set()

    def set(self, **faults):
        """Replaces all faults by these, which ``disk.c`` lists."""
        lines = [f"under {self._folder / 'data'}\n", *(f"{name} {value}\n" for name, value in faults.items())]
        new = self._folder / "control.new"
        new.write_text("".join(lines))
        new.rename(self._folder / "control")
