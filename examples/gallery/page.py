"""Fit every system of the gallery and write the page docs/gallery.md.

`python examples/gallery/page.py FOLDER` leaves data, studies and reports in the folder.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from systems import SYSTEMS, write_all

ROOT = Path(__file__).parents[2]
HEAD = """\
# Gallery

Ten systems, each simulated by a script independent of the package, with noise, and found again by a study. Take the
study closest to your system and replace the data file and the priors.

`python examples/gallery/page.py FOLDER` writes data, studies, reports and this page, and goes on where it was stopped.

| system | constants within one posterior sd of the truth, worst distance | fit on test data | verdict |
|---|---|---|---|
"""


def fit(folder: Path, name: str) -> dict:
    """The summary of a study's results, and the seconds it took."""
    out = folder / f"{name}-results"
    if (out / "summary.json").exists():  # an earlier run was stopped
        (found,) = json.loads((out / "summary.json").read_text())["models"].values()
        return found | {"trusted_exit": found["trusted"], "took": 0.0}
    command = [sys.executable, "-m", "probsysid", "fit", f"{name}.toml", "--quiet", "--out", str(out.absolute())]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 4):
        raise SystemExit(f"{name}: {done.stderr}")
    summary = json.loads((out / "summary.json").read_text())
    (found,) = summary["models"].values()
    return found | {"trusted_exit": done.returncode == 0, "took": time.perf_counter() - began}


def distances(name: str, found: dict) -> dict[str, float]:
    """Distance of every posterior mean from the truth in posterior standard deviations."""
    table, truth = found["parameters"], SYSTEMS[name].truth
    return {key: (table[key]["mean"] - value) / table[key]["sd"] for key, value in truth.items() if key in table}


def row(name: str, found: dict) -> str:
    scores = [s["test"] for s in found["scores"].values() if "test" in s]
    fits = ", ".join(f"{values['fit_percent']:.1f} %" for test in scores for values in test.values())
    far = distances(name, found)
    worst = max(far, key=lambda key: abs(far[key]))
    near = sum(abs(z) < 1 for z in far.values())
    trusted = "trusted" if found["trusted_exit"] else "not to be trusted"
    title = SYSTEMS[name].title
    link = f"#{title.lower().replace(' ', '-')}"
    return f"| [{title}]({link}) | {near} of {len(far)}, {worst} {far[worst]:+.1f} sd | {fits} | {trusted} |"


def section(name: str, found: dict, picture: str) -> str:
    system, table = SYSTEMS[name], found["parameters"]
    rows = [
        f"| {key} | {value:.4g} | {table[key]['mean']:.4g} ± {table[key]['sd']:.2g} | {table[key]['unit']} |"
        for key, value in system.truth.items()
        if key in table
    ]
    listed = "\n".join(rows)
    return f"""
## {system.title}

{system.about}

```toml
{system.study_text(name).rstrip()}
```

| constant | truth | posterior mean ± sd | unit |
|---|---|---|---|
{listed}

![{system.title}: free run on test data]({picture})
"""


def main(folder: Path, names: list[str]) -> None:
    write_all(folder)
    rows, sections, far = [], [], []
    for name in names:
        found = fit(folder, name)
        (drawn,) = list((folder / f"{name}-results" / "figures").glob("fit-*-test-*.png"))[:1]
        picture = ROOT / "docs" / "figures" / f"gallery-{name}.png"
        shutil.copy(drawn, picture)
        rows.append(row(name, found))
        far += [abs(z) for z in distances(name, found).values()]
        sections.append(section(name, found, f"figures/{picture.name}"))
        print(f"{rows[-1]} {found['took']:.0f} s", flush=True)
    near = sum(z < 1 for z in far)
    expected = 0.683 * len(far)
    told = f"\nOf {len(far)} constants {near} are within one standard deviation of the truth ({expected:.0f} expected)"
    told += f", and the worst is {max(far):.1f} away. All systems have the same random numbers as noise.\n"
    page = HEAD + "\n".join(rows) + "\n" + told + "".join(sections)
    (ROOT / "docs" / "gallery.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "gallery"), sys.argv[2:] or list(SYSTEMS))
