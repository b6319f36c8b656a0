"""pysindy on one data set; runs in its own environment, never in that of probsysid.

`python validation/select_pysindy_worker.py "stlsq states" SEED` reads data and functions as JSON from standard input,
and prints the terms that were found as one line of JSON.
"""

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import pysindy as ps

FUNCTIONS = {name: getattr(np, name) for name in ("sin", "tanh", "exp", "abs")}
THRESHOLDS = np.geomspace(0.005, 1, 25)
LEVEL = 0.95


def library(terms: dict[str, str]) -> ps.CustomLibrary:
    """Of three arguments each, which pysindy takes in their order: position, velocity and force."""

    def made(text: str) -> Any:
        code = compile(text, "term", "eval")  # texts are our own
        return lambda x, dx, force: eval(code, FUNCTIONS, {"x": x, "dx": dx, "force": force}) + 0 * x

    texts = {"x": "x", "dx": "dx", "force": "force", **terms}
    return ps.CustomLibrary([made(text) for text in texts.values()], [lambda *_, n=n: n for n in texts])


def best_by_bic(fit: Any, rates: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Coefficients of the threshold with the lowest Bayesian information criterion."""
    found = []
    for threshold in THRESHOLDS:
        coefficients = fit(threshold)
        left = rates - features @ coefficients
        count = np.count_nonzero(coefficients)
        found.append((len(left) * np.log(np.mean(left**2)) + count * np.log(len(left)), coefficients))
    return min(found, key=lambda pair: pair[0])[1]


def main() -> None:
    method, seed = sys.argv[1], int(sys.argv[2])
    warnings.simplefilter("ignore")
    given = json.load(sys.stdin)
    data = {name: np.array(values) for name, values in given["data"].items()}
    began = time.perf_counter()
    smooth = ps.SmoothedFiniteDifference()
    t, x = data["time"], data["x"][:, None]
    dx = data["dx"][:, None] if method.endswith("states") else np.asarray(smooth(x, t))
    states, rates = np.hstack([x, dx]), np.asarray(smooth(dx, t))
    names = ["x", "dx", "force", *given["terms"]]
    features = np.asarray(library(given["terms"]).fit_transform(np.hstack([states, data["force"][:, None]])))
    if method.startswith("stlsq"):

        def fit(threshold: float) -> np.ndarray:
            optimizer = ps.STLSQ(threshold=threshold, alpha=1e-6)
            optimizer.fit(features, rates)
            return np.asarray(optimizer.coef_).ravel()

        chosen = best_by_bic(fit, rates.ravel(), features) != 0
    else:
        optimizer = ps.SBR(num_warmup=300, num_samples=700, mcmc_kwargs={"seed": seed, "progress_bar": False})
        optimizer.fit(features, rates)
        draws = np.asarray(optimizer.mcmc_.get_samples()["beta"]).reshape(-1, features.shape[1])
        low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        chosen = (low > 0) | (high < 0)
    found = [name for name, inside in zip(names, chosen, strict=True) if inside and name in given["terms"]]
    print(json.dumps({"terms": sorted(found), "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
