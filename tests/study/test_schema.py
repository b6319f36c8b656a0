"""All mistakes in a study are reported at once, with key, value and nearest valid name."""

import math
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import probsysid as ps
from probsysid.model.equations import parse
from probsysid.study.catalogue import NAMES, look_up
from probsysid.study.mistakes import StudyError
from probsysid.study.priors import FAMILIES, parse_prior
from probsysid.study.resolve import resolve_study
from probsysid.study.run import load_study
from probsysid.study.schema import NoiseSection, SamplerSection, SolverSection
from probsysid.study.study_file import study_of
from probsysid.study.toml_writer import to_toml
from tests.study.small import STUDY, write_study

MODEL = STUDY[STUDY.index("[model]") : STUDY.index("[parameters]")]


def changed(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


def problems(text: str) -> list[str]:
    with pytest.raises(StudyError) as caught:
        study_of(tomllib.loads(text), "s.toml")
    return caught.value.problems


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("particles = 256", "particle = 256", "unknown key `sampler.particle`; did you mean `particles`?"),
        ("particles = 256", 'particles = "many"', "`sampler.particles` is 'many'; it must be a whole number."),
        ("particles = 256", "particles = 64.5", "`sampler.particles` is 64.5; it must be a whole number."),
        ("seed = 1", "seed = -1", "`seed` is -1; it must be greater than or equal to 0."),
        ("seed = 1", "sede = 1", "unknown key `sede`; did you mean `seed`?"),
        ('file = "lag.csv"', "", "`data.file` is missing."),
        ('time = "t"', "", "`data`: give either time (a column) or dt (seconds), found neither."),
        ('time = "t"', "dt = 0", "`data.dt` is 0; it must be greater than 0."),
        ('intersample = "zoh"', 'intersample = "foh"', "`data.inputs.u.intersample` is 'foh'; it must be one of"),
        ('unit = "V"', 'unti = "V"', "unknown key `data.inputs.u.unti`; did you mean `unit`?"),
        ("train = { samples = [0, 40] }", "train = { samples = [40, 0] }", "`data.train`: a range is two increasing"),
        ("train = { samples = [0, 40] }", "train = { sampels = [0, 4] }", "did you mean `samples`?"),
        ("h = 1", "h = 0", "`model.coordinates.h` is 0; it must be greater than or equal to 1."),
        ('h = "a*(b*u - h)"', 'h = "a*(b*u - h"', "`model.equations.h` is 'a*(b*u - h': column 3: this is not an"),
        ('h = "a*(b*u - h)"', 'h = "a.b"', "column 1: attribute access"),
        ("LogNormal(0, 1)", "LogNorml(0, 1)", "`parameters.a.prior` is 'LogNorml(0, 1)': there is no prior"),
        ("LogNormal(0, 1)", "LogNormal(0)", "the argument 'sd' is missing"),
        ("LogNormal(0, 1)", "LogNormal(0, -1)", "sd is -1; it must be positive"),
        ("level = 0.02", 'level = "loud"', "`noise.level`: 'loud' is not a prior"),
        ("level = 0.02", "level = nan", "`noise.level` is nan: it must be finite"),
        ("level = 0.02", "level = { degree = 4 }", "there is no key 'degree'; known are: level, transform, degrees"),
        ("level = 0.02", "level = { upper = 1, lower = 2 }", "Noise: lower is 2.0 and upper 1.0; lower must be below"),
        ("level = 0.02", 'level = { degrees = "Gama(2, 1)" }', "degrees: there is no prior 'Gama'"),
        ('[model]\nname = "lag"', '[model]\ncatalogue = "dufing"', "Did you mean 'duffing'?"),
        ('a = { prior = "LogNormal(0, 1)"', "a = { fixed = true", "`parameters.a.fixed` is True; it must be a number"),
        ('b = { prior = "Normal(1, 2)"', 'lambda = { prior = "Normal(1, 2)"', "`parameters.lambda`"),
        ('b = { prior = "Normal(1, 2)"', 'sin = { prior = "Normal(1, 2)"', "`parameters.sin`"),
    ],
)
def test_a_mistake_is_told_with_its_key(old: str, new: str, message: str) -> None:
    assert any(message in problem for problem in problems(changed(old, new))), problems(changed(old, new))


def test_all_mistakes_come_at_once_with_the_number_of_the_record() -> None:
    text = changed("[data]", "[[data]]") + '\n[[data]]\nfile = 3\ndt = -1\n[data.outputs]\nlevel = "y"\n'
    found = problems(text.replace("seed = 1", "sede = 1"))
    assert found == [
        "`data[2].file` is 3; it must be a text.",
        "`data[2].dt` is -1; it must be greater than 0.",
        "unknown key `sede`; did you mean `seed`?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('h = "a*(b*u - h)"', 'h = "a*(b*u - x)"', r"`model.equations.h`: column 10: unknown name 'x'"),
        ('h = "a*(b*u - h)"', 'h = "-a*h + u"', r"`parameters.b`: no model uses it"),
        ('level = "h"', 'levl = "h"', r"`model.outputs.levl`: the data have no output 'levl'.*Did you mean 'level'"),
        ('[model.outputs]\nlevel = "h"', "", r"`model.outputs`: what 'level' measures is not said; add level = '...'"),
        ("[noise]\nlevel", "[noise]\nlevle", r"`noise.levle`: there is no output 'levle'.*Did you mean 'level'"),
        ('[initial]\nh = "Normal(0, 0.1)"', "", r"`initial.h` is missing"),
        ("[initial]\nh", "[initial]\ndh", r"`initial.dh`: there is no component with an initial value 'dh'"),
        ("particles = 256", "particles = 255", r"`sampler`: 255 particles do not divide into 4 islands; take 256"),
        ("particles = 256", 'move = "gausian"', r"`sampler`: move is 'gausian'.*Did you mean 'gaussian'"),
        ("[sampler]", "[solver]\nsmoothness = 0\n[sampler]", r"`model`: smoothness of 'h' is 0"),
        ("lag.csv", "lga.csv", r"`data`: there is no file .*lga\.csv.*Did you mean 'lag.csv'"),
        ('column = "u"', 'column = "v"', r"`data`: .*lag\.csv: there is no column 'v'; there are: t, u, y"),
        ("samples = [0, 40]", "samples = [0, 400]", r"`data`: train.samples is \[0, 400\]; the record has 60 samples"),
        ("samples = [0, 40]", "seconds = [7, 8]", r"train.seconds is \[7, 8\]; the record goes from 0 to 5.9 s"),
        ("train = { samples = [0, 40] }", "", r"`data.train`: no record is for training"),
        ("b = {", "h = {", r"`model`: 'h' is a state and a parameter; rename one"),
        ("level = 0.02", 'level = "Normal(0, 1)"', r"noise.level allows negative values"),
        ("level = 0.02", "level = -0.02", r"noise of 'level' is -0.02"),
        (
            STUDY[STUDY.index("[model]") : STUDY.index("[parameters]")],
            '[model]\ncatalogue = "duffing"\n',
            "`data.inputs`",
        ),
    ],
)
def test_a_study_that_does_not_fit_together(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write_study(tmp_path, changed(old, new))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StudyError, match=message):
        load_study(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_good_study(tmp_path: Path) -> None:
    resolved, _ = load_study(write_study(tmp_path))
    candidate = resolved.candidates[0]
    assert candidate.model.parameter_names == ("a", "b")
    assert candidate.model.units["a"] == "1/s"
    assert [r.samples for r in resolved.training] == [40]
    assert resolved.sampler.particles == 256
    derivative = candidate.model.highest_derivatives([0.5], [1.0], {"a": 2.0, "b": 3.0})
    assert float(derivative[0]) == 2 * (3 - 0.5)


def test_several_models_and_records_share_parameters(tmp_path: Path) -> None:
    write_study(tmp_path)
    text = STUDY.replace("[data]", "[[data]]").replace("[model]", "[[model]]")
    second = STUDY[STUDY.index("[data]") : STUDY.index("[model]")].replace("[data]", "[[data]]\nname = 'again'")
    other = '[[model]]\nname = "cubic"\n[model.coordinates]\nh = 1\n[model.equations]\nh = "a*(b*u - h - g*h**3)"\n'
    other += '[model.outputs]\nlevel = "h"\n[model.parameters]\ng = "HalfNormal(1)"\n'
    tables = tomllib.loads(text + second + other)
    resolved = resolve_study(study_of(tables), tmp_path / "lag.toml")
    assert [c.name for c in resolved.candidates] == ["lag", "cubic"]
    assert resolved.candidates[1].problem.space.names[:3] == ("a", "b", "g")
    assert len(resolved.training) == 2
    assert len(resolved.candidates[0].problem.initials) == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_model_of_the_catalogue_is_complete(name: str) -> None:
    entry = look_up(name)
    physical = ["d" * i + c for c, order in entry.coordinates.items() for i in range(order)]
    highest = ["d" * order + c for c, order in entry.coordinates.items()]
    used: set[str] = set()
    for text in entry.equations.values():
        equation = parse(text)
        equation.check_names((*physical, *entry.inputs, *entry.parameters))
        used |= set(equation.names)
    for text in entry.quantities.values():
        parse(text).check_names((*physical, *highest))
    assert set(entry.equations) == set(entry.coordinates)
    assert set(entry.parameters) | set(entry.inputs) <= used


def test_a_chain_is_the_sum_of_its_springs() -> None:
    """Momentum: the forces of inner springs cancel, so that m_i ddx_i add up to the drive minus the wall's spring."""
    entry = look_up("mdof-chain", 3)
    values = {name: 0.1 * (i + 1) for i, name in enumerate([f"{p}x{i}" for p in ("", "d") for i in (1, 2, 3)])}
    constants = {name: 1.0 + 0.3 * i for i, name in enumerate(entry.parameters)}
    total = sum(
        constants[f"m{i}"] * parse(entry.equations[f"x{i}"]).evaluate({**values, **constants, "force": 2.0})
        for i in (1, 2, 3)
    )
    wall = constants["k1"] * values["x1"] + constants["c1"] * values["dx1"]
    # a dozen operations in double precision
    assert float(total) == pytest.approx(2.0 - wall, rel=1e-12)


def test_sections_have_every_option_of_solver_sampler_and_noise() -> None:
    sections = ((SolverSection, ps.Solver), (SamplerSection, ps.Sampler), (NoiseSection, ps.Noise))
    for section, options in sections:
        names = {field.name for field in fields(options)} - {"particle_filter"}  # follows from the model
        more = {ps.Solver: {"preset"}, ps.Sampler: {"preset", "method", "refine"}, ps.Noise: set()}[options]
        assert set(section.model_fields) == names | more


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_of_priors_has_a_working_example(name: str) -> None:
    assert parse_prior(FAMILIES[name].example).distribution.batch_shape == ()


def test_priors_are_those_of_numpyro() -> None:
    prior = parse_prior("TruncatedNormal(1, sd=2*0.1, low=0)").distribution
    reference = ps.dist.TruncatedNormal(1.0, 0.2, low=0.0)
    # the same program, but 2*0.1 and 0.2 may differ in the last digit
    assert float(prior.log_prob(0.9)) == pytest.approx(float(reference.log_prob(0.9)), rel=1e-12)
    scaled = parse_prior("LogNormal(log(5e4), 0.5)").distribution
    assert float(scaled.loc) == pytest.approx(math.log(5e4), rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *("", "LogNormal", "LogNormal()", "(1)", "LogNormal(0, 1", "LogNormal(0, 1).x", "x(1)", "LogNormal(a, 1)"),
        *("LogNormal(*[0, 1])", "LogNormal(**{})", "LogNormal(0, 1, 2)", "Normal(0, 1, mean=3)", "Normal(1/0, 1)"),
        *("Uniform(2, 1)", "Normal('a', 1)", "Normal(__import__('os'), 1)", "\x00", "lambda: 1"),
    ],
)
def test_bad_priors_are_refused(text: str) -> None:
    with pytest.raises(ps.InputError):
        parse_prior(text)


def test_a_study_written_again_reads_the_same() -> None:
    tables = tomllib.loads(STUDY.replace("[data]", "[[data]]") + '\n[process_noise]\n"h" = "HalfNormal(1e-7)"\n')
    tables["title"] = 'quotes " and \\ and \n and ü \x7f'
    assert tomllib.loads(to_toml(tables)) == tables
