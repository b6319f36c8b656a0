"""Advice that works: simulated misfits, each recognised for what it is, and gone when the advice is followed.

The lines for study files that the sentences offer are read from them and applied.
"""

import json
import re
import tomllib
import warnings
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares

import probsysid as ps
from probsysid.model.equations import parse
from probsysid.model.latent_processes import LatentProcesses
from probsysid.model.model_equations import ModelEquations
from probsysid.model.problem import Problem
from probsysid.posterior.diagnostics.advice import (
    delay_remedy,
    doubt,
    find_doubts,
    model_remedy,
    outliers_doubt,
    unknown_limits,
)
from probsysid.posterior.diagnostics.missing_terms import (
    DELAY,
    FreeRunErrors,
    PointEstimate,
    Term,
    as_python,
    correlation_time,
    examine,
)
from probsysid.posterior.diagnostics.residuals import analyse, verdict
from probsysid.posterior.simulate import simulate
from probsysid.study.priors import parse_prior

SAMPLES, DT, NOISE = 250, 0.2, 0.02
STUDY: dict[str, dict[str, Any]] = {
    "model.coordinates": {"x": 2},
    "model.equations": {"x": "force - c*dx - k*x"},
    "model.outputs": {"y": "x"},
    "parameters": {"c": "LogNormal(log(0.2), 0.5)", "k": "LogNormal(0, 0.5)"},
    "noise": {"y": "LogNormal(log(0.05), 1)"},
    "initial": {"x": 1.0, "dx": 0.0},
    "process_noise": {},
}


def model_of(study: dict[str, dict[str, Any]]) -> ps.Model:
    """One model for equal equations, so that it is traced once."""
    return written(json.dumps([study[f"model.{table}"] for table in ("coordinates", "equations", "outputs")]))


@cache
def written(tables: str) -> ps.Model:
    coordinates, *texts = json.loads(tables)
    equations, outputs = ({name: parse(text) for name, text in table.items()} for table in texts)
    given = ModelEquations(coordinates, equations, outputs, ("force",))
    return ps.Model(given.coordinates, given.dynamics, given.measured)


def prior(value: Any) -> Any:
    if isinstance(value, dict):
        return ps.Noise(**{key: prior(item) for key, item in value.items()})
    return parse_prior(value).distribution if isinstance(value, str) and "(" in value else value


def fitted(study: dict[str, dict[str, Any]], record: ps.Record) -> ps.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.ModelWarning)
        return ps.identify(
            model_of(study),
            record,
            {name: prior(value) for name, value in study["parameters"].items()},
            {name: prior(value) for name, value in study["noise"].items()},
            {name: prior(value) for name, value in study["initial"].items()},
            process_noise={name: prior(value) for name, value in study["process_noise"].items()} or None,
            solver=ps.Solver(substeps=2),
            sampler=ps.Sampler(particles=128),
        )


def measured(
    *, term: str = "0", drift: float = 0.0, force: float = 0.0, bound: float = np.inf, late: int = 0
) -> ps.Record:
    """A driven oscillator with something that the study leaves out."""
    random, time = np.random.default_rng(3), DT * np.arange(SAMPLES)
    drive = 0.6 * np.cos(0.9 * time) + 0.4 * np.sin(1.7 * time + 1.0) + 0.3 * np.cos(0.31 * time)
    bare = ps.Record({"force": drive}, dt=DT, intersample="zoh")
    study = deepcopy(STUDY)
    study["model.equations"]["x"] += f" - {term}"
    parameters = {"c": np.array([0.2]), "k": np.array([1.0])}
    forces = {"x": np.array([force])} if force else None
    outputs, _, _ = simulate(model_of(study), parameters, np.array([[1.0], [0.0]]), bare, 8, forces, 3)
    values = outputs["y"][0] + drift * time + NOISE * random.standard_normal(SAMPLES)
    drive = np.concatenate([drive[late:], np.zeros(late)])
    return ps.Record({"force": drive}, {"y": np.minimum(values, bound)}, dt=DT, intersample="zoh")


def followed(study: dict[str, dict[str, Any]], sentence: str) -> dict[str, dict[str, Any]]:
    """The study with the lines in a sentence."""
    first = sentence.split(" Or, ")[0]
    changed, lines = deepcopy(study), re.findall(r"`\[([\w.]+)\] (\w+ = [^`]+)`", first)
    assert lines, sentence
    for table, line in lines:
        changed[table] |= tomllib.loads(line)
    return changed


CASES = {
    "noise": (
        measured(),
        {"noise": {"y": NOISE / 10}},
        r"fixed at 0.002, .* Let the noise be inferred, in a study: `\[noise\] y = \"LogNormal",
    ),
    "force": (
        measured(force=0.1),
        {},
        r"are not white .*: a random force is missing. Add process noise, in a study: `\[process_noise\] x = \"auto\"`",
    ),
    "term": (
        measured(term="0.1*x**2"),
        {},
        r"A term in x\*\*2 is missing from the equation of 'x'.* x = \"force - c\*dx - k\*x \+ a\*x\*\*2\"`",
    ),
    "clipping": (
        measured(bound=0.5),
        {},
        r"are not white .* in a row are its largest value 0.5, .*: `\[noise\] y = { upper = 0.5 }`",
    ),
    "drift": (
        measured(drift=0.01),
        {},
        r"A drift in time is missing from the (equation of|output) '[xy]'.*`\[model.coordinates\] clock = 1`",
    ),
}


def study_of(name: str) -> dict[str, dict[str, Any]]:
    changes = CASES[name][1]
    return {table: {**lines, **changes.get(table, {})} for table, lines in STUDY.items()}


@cache
def advice(name: str) -> str:
    """The one doubt of a case."""
    (sentence,) = fitted(study_of(name), CASES[name][0]).doubts
    return sentence


# A drift is found as a term is, with the time among the candidates; clipping is tested without a run below.
LONG = ("drift", "clipping")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES])
def test_each_misfit_gets_its_own_advice(name: str) -> None:
    sentence, pattern = advice(name), CASES[name][2]
    assert re.search(pattern, sentence), sentence
    others = [other for key, (_, _, other) in CASES.items() if key != name]
    assert not any(re.search(other, sentence) for other in others), sentence


# A new equation, or process noise, is another filter to compile.
@pytest.mark.parametrize(
    "name", [name if name == "noise" else pytest.param(name, marks=pytest.mark.long) for name in CASES]
)
def test_it_is_gone_after_it(name: str) -> None:
    assert fitted(followed(study_of(name), advice(name)), CASES[name][0]).doubts == ()


@pytest.mark.long
def test_a_model_with_process_noise_is_not_told_to_add_it() -> None:
    """Even where it is too small by far to account for the errors."""
    study = {**STUDY, "process_noise": {"x": 1e-4}}
    (sentence,) = fitted(study, measured(force=0.1)).doubts
    assert "are not white" in sentence and "process_noise" not in sentence and "richer model" in sentence


def test_the_verdict_on_a_model_with_process_noise_does_not_name_it() -> None:
    white = analyse(np.cumsum(np.random.default_rng(0).standard_normal(200)))
    assert white is not None
    assert "process_noise" in verdict("y", white) and "process_noise" not in verdict("y", white, process_noise=True)


def test_what_is_fixed_makes_no_room_for_a_term() -> None:
    """A cubic spring that is there, but fixed at zero, does not hide that it is needed; one that was inferred does."""
    record = measured(term="0.3*x**3")
    model = ps.Model(
        {"x": 2},
        lambda s, u, p: {"x": u.force - p.c * s.dx - p.k * s.x - p.k3 * s.x**3},
        lambda s, u, p: {"y": s.x},
    )
    start = {"x": np.array(1.0), "dx": np.array(0.0)}

    def errors(given: np.ndarray) -> np.ndarray:
        values = {"c": given[:1], "k": given[1:], "k3": np.zeros(1)}
        return simulate(model, values, np.array([[1.0], [0.0]]), record, 2)[0]["y"][0] - record.outputs["y"]

    c, k = least_squares(errors, [0.2, 1.0]).x
    values = {"c": np.array(c), "k": np.array(k), "k3": np.array(0.0)}
    fixed = examine(model, record, PointEstimate(values, start, {"y": 0.1}, frozenset({"c", "k"})))
    assert fixed is not None and fixed.missing is not None and not fixed.white
    assert fixed.missing.term.text in ("x**3", "x*abs(x)") and fixed.missing.term.place == "x"
    inferred = examine(model, record, PointEstimate(values, start, {"y": 0.1}, frozenset({"c", "k", "k3"})))
    assert inferred is not None
    assert inferred.missing is None or inferred.missing.term.text != "x**3"


def least_squares_values(record: ps.Record) -> dict[str, np.ndarray]:
    """Damping and stiffness of the study's model that fit best."""

    def errors(given: np.ndarray) -> np.ndarray:
        values = {"c": given[:1], "k": given[1:]}
        return simulate(model_of(STUDY), values, np.array([[1.0], [0.0]]), record, 2)[0]["y"][0] - record.outputs["y"]

    c, k = least_squares(errors, [0.2, 1.0]).x
    return {"c": np.array(c), "k": np.array(k)}


def test_dry_friction_is_told_from_a_power_of_the_speed() -> None:
    start = {"x": np.array(1.0), "dx": np.array(0.0)}
    for term, named in (("0.1*tanh(dx/0.01)", r"tanh\(dx/0.0\d\)"), ("0.1*dx*abs(dx)", r"dx\*abs\(dx\)")):
        record = measured(term=term)
        estimate = PointEstimate(least_squares_values(record), start, {"y": NOISE}, frozenset({"c", "k"}))
        found = examine(model_of(STUDY), record, estimate)
        assert found is not None and found.missing is not None
        assert re.fullmatch(named, found.missing.term.text) and found.missing.term.place == "x", found
        assert found.missing.coefficient == pytest.approx(-0.1, rel=0.2)
    assert as_python(model_of(STUDY), "tanh(dx/0.03)") == "jnp.tanh(s.dx/0.03)"


def test_an_input_that_comes_late_is_named() -> None:
    record, start = measured(late=2), {"x": np.array(1.0), "dx": np.array(0.0)}
    estimate = PointEstimate(least_squares_values(record), start, {"y": NOISE}, frozenset({"c", "k"}))
    found = examine(model_of(STUDY), record, estimate)
    assert found is not None and found.missing is not None and found.missing.term == Term("force", DELAY), found
    assert found.missing.coefficient == pytest.approx(2.0, abs=0.3)
    sentence = delay_remedy(found.missing)
    assert re.search(r"'force' seems to act (1.[7-9]|2|2.[0-3]) samples later .* `np.interp\(t - ", sentence), sentence
    assert "earlier" in delay_remedy(found.missing._replace(coefficient=-1.0))


def test_a_sensor_that_clips_is_named_before_anything_else() -> None:
    record = measured(bound=0.5)
    problem = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, {"y": 0.5}, [{"x": 1.0, "dx": 0.0}], None)
    assert unknown_limits(measured(), "y", problem) == {}
    limits = unknown_limits(record, "y", problem)
    assert limits == {"upper": 0.5}
    told = Problem.make(
        model_of(STUDY), {"c": 0.2, "k": 1.0}, {"y": ps.Noise(0.5, upper=0.5)}, [{"x": 1.0, "dx": 0.0}], None
    )
    assert unknown_limits(record, "y", told) == {}
    white = analyse(np.cumsum(np.random.default_rng(0).standard_normal(200)))
    assert white is not None
    sentence = doubt("y", "y", white, None, problem, limits=limits)
    assert re.search(CASES["clipping"][2], sentence) and "process_noise" not in sentence


def test_coloured_noise_is_offered_beside_process_noise_with_the_errors_own_correlation_time() -> None:
    random, time = np.random.default_rng(5), 3.0
    noise = np.zeros(20_000)
    for i in range(1, len(noise)):
        noise[i] = np.exp(-DT / time) * noise[i - 1] + random.standard_normal()
    record = ps.Record(outputs={"y": noise}, dt=DT)
    found = correlation_time(record, "y", noise)
    error = np.sqrt(2 * DT / time / len(noise)) * time / DT  # relative: asymptotic sd of the lag-one correlation
    assert found == pytest.approx(time, rel=3.5 * error)
    assert correlation_time(record, "y", noise * (-1.0) ** np.arange(len(noise))) == 0.0
    white = analyse(np.cumsum(random.standard_normal(200)))
    assert white is not None
    problem = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, {"y": 0.5}, [{"x": 1.0, "dx": 0.0}], None)
    sentence = doubt("y", "y", white, None, problem, FreeRunErrors({"y": 1.0}, False, None, {"y": 3.0}))
    assert '`[process_noise] x = "auto"`' in sentence
    assert '`[noise] y = { time = "LogNormal(log(3), 1)" }`' in sentence
    assert "{ time" not in doubt("y", "y", white, None, problem, FreeRunErrors({"y": 1.0}, False))


def test_outliers_are_no_reason_for_more_noise() -> None:
    """One error in fifty is twenty times too large; noise that is inferred has grown by as much as makes errors one."""
    random = np.random.default_rng(1)
    errors = random.standard_normal(400)
    errors[::50] = 20.0 * random.choice([-1.0, 1.0], 8)
    found, correlated = analyse(errors / errors.std()), analyse(np.convolve(errors, np.ones(20)))
    assert found is not None and found.outliers == 8 and correlated is not None
    noise: dict[str, Any] = {"y": 0.5}
    problem = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, noise, [{"x": 1.0, "dx": 0.0}], None)
    sentence = outliers_doubt("y", "y", found, problem)
    assert sentence.startswith("8 of 400 prediction errors of 'y' are more than 4 times as large as most")
    assert '`[noise] y = { degrees = "auto" }`' in sentence and "LogNormal" not in sentence
    assert outliers_doubt("y", "y", correlated, problem) == ""
    noise = {"y": ps.Noise(0.5, degrees=4.0)}
    told = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, noise, [{"x": 1.0, "dx": 0.0}], None)
    assert outliers_doubt("y", "y", found, told) == ""


def test_outliers_are_named_where_the_integration_is_adequate() -> None:
    """Else a few large errors may be its own."""
    random = np.random.default_rng(1)
    errors = random.standard_normal((400, 1))
    errors[::50, 0] *= 40.0
    problem = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, {"y": 0.5}, [{"x": 1.0, "dx": 0.0}], None)
    arguments = ([errors / errors.std()], problem, [measured()], np.zeros((0, 2)), np.full(2, 0.5), True)
    (sentence,) = find_doubts(*arguments)
    assert "prediction errors of 'y' are more than 4 times as large as most" in sentence
    assert find_doubts(*arguments, adequate=False) == []


def test_normal_errors_have_no_outliers() -> None:
    """Nor have those of a uniform distribution."""
    random = np.random.default_rng(2)
    found = [analyse(random.standard_normal(count)) for count in (20, 100, 10_000) for _ in range(50)]
    assert all(each is not None and each.outliers == 0 for each in [*found, analyse(random.uniform(-1, 1, 500))])


def test_white_errors_of_the_right_size_are_no_doubt() -> None:
    found = analyse(np.random.default_rng(0).standard_normal(300))
    wide = analyse(3 * np.random.default_rng(0).standard_normal(300))
    assert found is not None and wide is not None
    problem = Problem.make(model_of(STUDY), {"c": 0.2, "k": 1.0}, {"y": 0.5}, [{"x": 1.0, "dx": 0.0}], None)
    assert doubt("y", "y", found, 0.5, problem) == ""
    assert doubt("y", "y", wide, None, problem) == ""  # inferred noise would have grown
    sentence = doubt("y of record 1", "y", wide, 0.5, problem)
    assert sentence.startswith("the noise of 'y of record 1' is fixed at 0.5, and prediction errors are 3")
    assert sentence.endswith("in Python: `noise={'y': dist.LogNormal(np.log(1.5), 1)}`.")


def test_a_model_with_an_unknown_input_is_told_to_change_its_kernel() -> None:
    """Not to give process noise to the coordinates of the kernel."""
    model = ps.Model({"x": 1}, lambda s, u, p: {"x": u.force - s.x})
    latent = LatentProcesses.make(model, {}, {"force": ps.Matern(1.5, scale=1.0, length=1.0)}, {})
    problem = Problem.make(model, {}, {"x": 0.1}, [{"x": 0.0}], {}, {}, latent)
    remedy = model_remedy(problem, None, "x")
    assert remedy.startswith("What is unknown or drifts ('force') does not account for them: compare other kernels")
    assert "process_noise" not in remedy
