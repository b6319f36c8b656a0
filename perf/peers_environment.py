"""The environment of the other libraries, .venv-peers, which is created on first use."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parent / ".venv-peers"
REQUIREMENTS = HERE / "requirements-peers.txt"


def peers_python(environment: dict[str, str] | None = None) -> tuple[Path | None, str]:
    """Its interpreter, or None and the reason why it cannot be created.

    Everything is pinned, so that nothing has to be resolved: `particles` 0.4 asks for NumPy 1 and works with 2.
    """
    python, stamp = VENV / "bin" / "python", VENV / ".installed"
    wanted = REQUIREMENTS.read_text()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python, ""
    print(f"Making {VENV.name} for the other libraries (once, a minute or two)", flush=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    try:
        for command in ([sys.executable, "-m", "venv", "--clear", str(VENV)], [*pip, "-r", str(REQUIREMENTS)]):
            subprocess.run(command, check=True, env=environment or dict(os.environ), capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as error:
        return None, str(getattr(error, "stderr", None) or error)
    stamp.write_text(wanted)
    return python, ""
