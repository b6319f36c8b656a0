"""What notebooks show for a posterior, its simulations, states and residuals."""

from typing import TYPE_CHECKING

import numpy as np

from probsysid._internal.notebook import Card, Cell, Histogram, Signal, Verdict
from probsysid.posterior.diagnostics.traffic_lights import traffic_lights

if TYPE_CHECKING:
    from probsysid.posterior.diagnostics.residuals import Residuals
    from probsysid.posterior.posterior import Posterior
    from probsysid.posterior.simulate import Simulation
    from probsysid.posterior.states import States
    from probsysid.posterior.unknown_inputs import UnknownInputs


def posterior_card(posterior: "Posterior") -> Card:
    """Every quantity with mean, sd, 90 % interval and histogram, below the three verdicts."""
    rows: list[list[Cell]] = []
    for name, row in posterior.table().iterrows():
        values = posterior.columns[str(name)]
        rows.append(
            [
                str(name),
                f"{row['mean']:.5g}",
                f"{row['sd']:.2g}",
                f"{row['q05']:.5g} to {row['q95']:.5g}",
                str(row["unit"]),
                Histogram.of(values, posterior.weights),
                str(row["flags"]),
            ]
        )
    error = posterior.log_evidence_error
    evidence = f"log evidence {posterior.log_evidence:.2f}" + (f" ± {error:.2g}" if np.isfinite(error) else "")
    facts = [f"{len(posterior.weights)} particles (effective {posterior.ess:.0f}), {evidence}"]
    columns = ("quantity", "mean", "sd", "90 % interval", "unit", "posterior", "remarks")
    title = f"Posterior of {posterior.settings.model}" if posterior.settings.model else "Posterior"
    return Card(title, facts, traffic_lights(posterior), columns, rows)


def simulation_card(simulation: "Simulation") -> Card:
    """Outputs with their scores and the mean of the free run."""
    rows: list[list[Cell]] = []
    for name in simulation.outputs:
        scores = ["", ""]
        if name in simulation.scored:
            scores = [f"{simulation.rmse(name).mean:.4g}", f"{simulation.fit(name).mean:.2f} %"]
        rows.append([simulation.record.label(name), *scores, Signal.of(simulation.record.time, simulation.mean(name))])
    facts = [f"{len(simulation.weights)} particles, {simulation.record.samples} samples, {simulation.steps} steps each"]
    facts += [f"starts from {simulation.start}"] if simulation.start else []
    facts += [f"{simulation.skip} samples at the start are not scored"] if simulation.skip else []
    return Card("Free-run simulation", facts, columns=("output", "rmse", "fit", "mean"), rows=rows)


def states_card(states: "States") -> Card:
    """Means of all states, and how well they are known."""
    rows: list[list[Cell]] = [
        [name, f"{float(np.mean(states.sd[name])):.2g}", Signal.of(states.time, np.asarray(mean))]
        for name, mean in states.mean.items()
    ]
    draws = len(next(iter(states.paths.values())))
    facts = [f"{len(states.time)} samples, {draws} sample paths"]
    return Card("Smoothed states", facts, columns=("state", "typical sd", "mean"), rows=rows)


def inputs_card(inputs: "UnknownInputs") -> Card:
    """Means of unknown inputs and drifts, and how well they are known."""
    rows: list[list[Cell]] = [
        [name, f"{float(np.mean(inputs.sd[name])):.2g}", Signal.of(inputs.time, np.asarray(mean))]
        for name, mean in inputs.mean.items()
    ]
    draws = len(next(iter(inputs.paths.values())))
    facts = [f"{len(inputs.time)} samples, {draws} sample paths", *inputs.sentences]
    return Card("Unknown inputs and drifts", facts, columns=("name", "typical sd", "mean"), rows=rows)


def residuals_card(residuals: "Residuals") -> Card:
    """Whether the errors are white, and their course."""
    words = "white as far as the data can tell" if residuals.white else "not white"
    sentence = f"{words} (Ljung-Box p = {residuals.probability:.2g}); spread {residuals.spread:.2f}, 1 expected."
    lags = np.arange(len(residuals.correlation)) + 1.0
    courses = ((residuals.samples.astype(float), residuals.values), (lags, residuals.correlation))
    return Card(
        "One-step prediction errors",
        [f"{len(residuals.values)} samples"],
        [Verdict("whiteness", "good" if residuals.white else "bad", sentence)],
        ("errors / sd", "autocorrelation"),
        [[Signal.of(along, values) for along, values in courses]],
    )
