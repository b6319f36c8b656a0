"""Pictures of the live page: runs the script and the study of docs/live.md, and looks at the page in chromium.

python docs/figures/live.py [SECONDS]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.report.browser import browser  # noqa: E402


def main() -> None:
    """Two pictures: a screen, and a phone in the dark."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 100.0
    text = (HERE.parent / "live.md").read_text()
    with tempfile.TemporaryDirectory() as name, browser() as window:
        folder = Path(name)
        (folder / "rig.py").write_text(re.findall(r"```py\n(# rig.py.*?)```", text, re.DOTALL)[0])
        (folder / "rig.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
        rig = subprocess.Popen([sys.executable, "rig.py", str(seconds)], cwd=folder)
        command = [
            sys.executable,
            "-m",
            "probsysid",
            "live",
            "rig.toml",
            "--source",
            "rig.csv",
            "--dt",
            "0.05",
            "--on-alarm",
            "restart",
        ]
        run = subprocess.Popen([*command, "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True)
        assert run.stderr is not None
        url = next(line.split()[-1] for line in run.stderr if "Watch it at" in line)
        window.resize(1280, 1250)
        window.post("/url", {"url": url})
        rig.wait()
        time.sleep(8)
        window.screenshot(HERE / "live-desktop.png")
        window.dark()
        window.resize(390, 844)
        window.post("/url", {"url": url})
        time.sleep(4)
        window.screenshot(HERE / "live-phone.png")
        print([entry["message"] for entry in window.log() if entry["level"] == "SEVERE"])
        run.terminate()
        print(run.communicate(timeout=60)[1])


if __name__ == "__main__":
    main()
