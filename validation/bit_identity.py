"""`python -m validation.bit_identity OLD NEW`: do two checkouts give the same posteriors, to the last bit?

Each checkout runs the same problems in a process of its own, through public names only: in batch, online, and
interrupted and resumed, on three seeds.  Theta, weights and log evidence are compared bit by bit.  For refactorings,
which must not change a single number.  `--write FILE` keeps the results of one, to be named in place of a checkout.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SEEDS = (0, 1, 2)
COMPARED = ("theta", "weights", "log_evidence")


def compare(old: Path, new: Path) -> dict[str, bool]:
    """For each run and quantity, whether the two checkouts agree in every bit."""
    first, second = (_results(checkout) for checkout in (old, new))
    assert first.keys() == second.keys()
    return {key: first[key].tobytes() == second[key].tobytes() for key in first}


def _results(checkout: Path) -> dict[str, np.ndarray]:
    """Of a checkout, or of a file that `--write` has left."""
    if checkout.suffix == ".npz":
        with np.load(checkout) as file:
            return {key: file[key] for key in file.files}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "results.npz"
        command = [sys.executable, str(Path(__file__).resolve()), "--write", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
        subprocess.run(command, check=True, cwd=name, env=environment)
        return _results(path)


def write(path: Path) -> None:
    """Run every problem with the probsysid that this process imports."""
    import probsysid as ps

    print(f"running {Path(ps.__file__).parents[2]}", flush=True)
    results: dict[str, np.ndarray] = {}
    for seed in SEEDS:
        for kind, posterior in _posteriors(seed).items():
            for quantity in COMPARED:
                results[f"{kind}, seed {seed}: {quantity}"] = np.asarray(getattr(posterior, quantity))
    np.savez(path, **results)


def _posteriors(seed: int) -> dict[str, object]:
    """Batch, online and resumed runs of one seed."""
    import probsysid as ps
    from probsysid import dist

    duffing = ps.Model(
        coordinates={"x": 2},
        dynamics=lambda s, u, p: {"x": (u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3) / p.m},
        outputs=lambda s, u, p: {"position": s.x},
    )
    options = {
        "priors": {
            "m": dist.LogNormal(0, 0.3),
            "c": dist.LogNormal(-2, 1.0),
            "k": dist.LogNormal(0, 0.5),
            "k3": dist.LogNormal(-1, 1.0),
        },
        "noise": {"position": dist.LogNormal(-4, 1.0)},
        "initial": {"x": dist.Normal(0, 0.1), "dx": 0.0},
        "seed": seed,
    }
    record = _measured(duffing, seed)
    given = ps.Solver(substeps=1)
    small, papers = ps.Sampler(particles=128), ps.Sampler.paper(particles=128)
    held = record.replace(intersample="zoh")
    streamed = ps.Identifier(duffing, dt=record.dt, intersample="linear", sampler=small, **options)
    force, position = record.inputs["force"], record.outputs["position"]
    for first in range(0, record.samples, 37):
        part = slice(first, first + 37)
        streamed.update({"force": force[part]}, {"position": position[part]})
    several = [record, _measured(duffing, seed + 10)]
    return {
        "batch": ps.identify(duffing, record, sampler=ps.Sampler(particles=512), **options),
        "one step per sample": ps.identify(duffing, held, solver=given, sampler=small, **options),
        "paper": ps.identify(duffing, held, solver=ps.Solver.paper(), sampler=papers, **options),
        "tempered": ps.identify(duffing, record, sampler=ps.Sampler(particles=128, path="likelihood"), **options),
        "waste-free": ps.identify(duffing, record, solver=given, sampler=ps.Sampler(particles=256, chain=4), **options),
        "two records": ps.identify(duffing, several, sampler=small, **options),
        "chain of masses": _chain(seed),
        "resumed": _resumed(duffing, record, {**options, "sampler": small}),
        "online": streamed.posterior,
    }


def _measured(model: object, seed: int, samples: int = 150) -> "ps.Record":  # type: ignore[name-defined]  # noqa: F821
    """A multisine force and the position of a Duffing oscillator that a plain Runge-Kutta integration gives."""
    import probsysid as ps

    random = np.random.default_rng(seed)
    dt, fine = 0.1, 20
    phases = random.uniform(0, 2 * np.pi, 12)
    knots = dt * np.arange(samples)
    forces = 0.3 * sum(np.cos(w * knots + phase) for w, phase in zip(np.linspace(0.3, 3, 12), phases, strict=True))
    state, positions = np.zeros(2), [0.0]
    for k in range(samples - 1):
        for j in range(fine):
            force = forces[k] + (forces[k + 1] - forces[k]) * (j + 0.5) / fine

            def rate(s: np.ndarray, force: float = force) -> np.ndarray:
                return np.array([s[1], force - 0.1 * s[1] - s[0] - 0.5 * s[0] ** 3])

            middle = state + 0.5 * dt / fine * rate(state)
            state = state + dt / fine * rate(middle)
        positions.append(state[0])
    noisy = np.array(positions) + 0.02 * random.standard_normal(samples)
    return ps.Record(inputs={"force": forces}, outputs={"position": noisy}, dt=dt, intersample="linear")


def _chain(seed: int) -> "ps.Posterior":  # type: ignore[name-defined]  # noqa: F821
    """Five masses: too many components for the unrolled filter."""
    import probsysid as ps
    from probsysid import dist

    names = [f"x{i}" for i in range(5)]

    def dynamics(s: object, u: object, p: object) -> dict[str, object]:
        places = [0.0, *(getattr(s, name) for name in names), 0.0]
        rates = [getattr(s, f"d{name}") for name in names]
        pushes = [u.force if i == 0 else 0.0 for i in range(5)]  # type: ignore[attr-defined]
        return {
            name: p.k * (places[i] - 2 * places[i + 1] + places[i + 2]) - p.c * rates[i] + pushes[i]  # type: ignore
            for i, name in enumerate(names)
        }

    model = ps.Model(dict.fromkeys(names, 2), dynamics, lambda s, u, p: {"end": s.x4})
    random = np.random.default_rng(seed)
    force, end = random.standard_normal(40), 0.1 * np.cumsum(random.standard_normal(40))
    record = ps.Record(inputs={"force": force}, outputs={"end": end}, dt=0.1)
    priors = {"k": dist.LogNormal(0, 0.5), "c": dist.LogNormal(-2, 0.5)}
    still = {**dict.fromkeys(names, 0.0), **{f"d{name}": 0.0 for name in names}}
    given = {"solver": ps.Solver(substeps=1), "sampler": ps.Sampler(particles=64), "seed": seed}
    return ps.identify(model, record, priors, {"end": 0.3}, still, **given)


def _resumed(model: object, record: object, options: dict) -> object:
    """Interrupted after half of the samples, and resumed from its checkpoint."""
    import probsysid as ps

    def interrupt(run: object, _: object) -> None:
        if run.samples > record.samples // 2:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run.npz"
        try:
            ps.identify(model, record, checkpoint=path, notice=interrupt, **options)
        except KeyboardInterrupt:
            return ps.identify(model, record, checkpoint=path, **options)
    raise AssertionError("the run was not interrupted")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.bit_identity", description=__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path, help="two checkouts, or files that --write has left")
    parser.add_argument("--write", type=Path, help="write the results of the probsysid that is imported")
    arguments = parser.parse_args()
    if arguments.write is not None:
        write(arguments.write)
        return
    if len(arguments.checkouts) != 2:
        parser.error("name two checkouts to compare")
    import warnings

    warnings.simplefilter("ignore")
    same = compare(*arguments.checkouts)
    for key, equal in same.items():
        print(f"{'same' if equal else 'DIFFERENT'}  {key}")
    print(f"{sum(same.values())} of {len(same)} arrays are the same in every bit")
    sys.exit(0 if all(same.values()) else 1)


if __name__ == "__main__":
    main()
