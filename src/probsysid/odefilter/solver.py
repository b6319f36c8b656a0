"""The solver's settings, and the ODE filter that follows from them for a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from probsysid._internal.errors import InputError, did_you_mean
from probsysid._internal.jax_setup import check_jax
from probsysid._internal.validation import check_algorithm, choose, is_real, is_whole
from probsysid.model.model import Model
from probsysid.model.problem import Problem
from probsysid.odefilter.arrays.step import ArrayFilter
from probsysid.odefilter.data_given_ode import DataGivenODE
from probsysid.odefilter.diffusion import Diffusion, Dynamic, Fixed, Given, QuasiMLE
from probsysid.odefilter.layout import Layout
from probsysid.odefilter.linearise import EKF0, EKF1, BlockEKF1, Linearisation
from probsysid.odefilter.ode_filter import ODEFilter
from probsysid.odefilter.unrolled.step import UnrolledFilter

if TYPE_CHECKING:
    from probsysid.particlefilter.settings import ParticleFilter

MAX_SMOOTHNESS = 11
"""Beyond this, the prior's factors are meaningless in double precision."""

MOST_SUBSTEPS = 10_000
"""The automatic choice ends at 32; with more than this, rounding errors add up to more than is gained."""

LARGEST_UNROLLED = 12
"""Number of components up to which `UnrolledFilter` is used; above, `ArrayFilter`.

Chains of masses, smoothness 3, seconds of processor time to compile and microseconds per particle and step: 8
components, unrolled 7 s and 0.1 us; 12, unrolled 24 s and 0.3 us; 16, unrolled 88 s and 0.8 us, arrays 8 s and 2.1 us.
At 16 the two break even after 60 million particle-steps: 1000 particles, 1000 samples, 60 sweeps.
"""

LINEARISATIONS: dict[str, Linearisation] = {"ekf0": EKF0(), "ekf1": EKF1(), "block-ekf1": BlockEKF1()}
DIFFUSIONS: dict[str, Diffusion] = {"quasi-mle": QuasiMLE(), "dynamic": Dynamic(), "inferred": Given()}
CONDITIONINGS = ("auto", "joint", "solver")
LIKELIHOODS = ("filter", "fenrir", "dalton")

AUTOMATIC: Linearisation = EKF1()
"""For automatic steps, which are short enough that the prediction is close to the motion."""

GIVEN: Linearisation = EKF1(iterations=3)
"""For given steps, which may be too long: z-scores of 0.9 to 1.3 at one step per sample (docs/validation.md), at 1.5 to
1.8 times the cost per step."""

LOCAL: Diffusion = Dynamic(2.0, floor=0.1, coupled=True)
"""Some four residuals: fewer are occasionally all close to zero, more blur a burst; a tenth of the mean over a window,
and bounded by other coordinates, without which kinks are integrated badly (docs/decisions.md)."""


@dataclass(frozen=True)
class Solver:
    """How the ODE is integrated, and how the integration error is modelled.

    Args:
        smoothness: number q of derivatives in the integrated Wiener process prior, at least the order of the ODE: one
            number, or one for each coordinate by name.  `"auto"` takes the order plus two, `"paper"` plus one.
        substeps: integration steps per sampling interval.  With `"auto"`, `identify` determines how many the data need
            (1, 2, 4, ... 32), and `solve` takes one.
        linearisation: `EKF1()`, `EKF0()` or `BlockEKF1()`; or `"ekf1"`, `"ekf0"`, `"block-ekf1"`.  By
            default `EKF1()` where steps are automatic, `EKF1(iterations=3)` where they are given, and so may be long.
        diffusion: `QuasiMLE()`, `Dynamic()` or `Fixed(scale)`; or `"quasi-mle"`, `"dynamic"`, a number.  By default
            `Dynamic(2.0, floor=0.1, coupled=True)`.  With `"inferred"` it is a quantity with a prior, in units of
            x^(q) per root second: `priors={"solver.diffusion": ...}`, or one per coordinate, `"solver.diffusion.x"`.
        conditioning: `"joint"` conditions the state on the data as well as on the ODE; `"solver"` only on the ODE, so
            that the data enter the likelihood of the parameters but never correct the state.  `"auto"` is joint, except
            for models of more than 12 components without process noise: with automatic steps, which are short enough
            for both to be the same, these take `BlockEKF1()`, which costs a hundredth or less, and `"solver"`.
        ode_noise: standard deviation of the ODE residual in units of the highest derivative; 0 imposes the ODE exactly.
        particle_filter: estimates the likelihood of a model whose noise depends on the state, or whose outputs are
            distributions; `identify` fills it in.
        pilot: with automatic steps, let particles follow the data with Runge-Kutta steps where these agree with the
            solver, and take them over to the solver's own posterior at the end: the same result for less work.
        likelihood: `"filter"` is the product of the filter's one-step predictions; `"fenrir"` and `"dalton"` are the
            density of the data given that the ODE holds at all steps, linearised along the solution without data, or
            where the data lead.  Both take a filter more, and the diffusion of the solution without data.
    """

    smoothness: int | Mapping[str, int] | Literal["auto", "paper"] = "auto"
    substeps: int | Literal["auto"] = "auto"
    linearisation: Linearisation | str | None = None
    diffusion: Diffusion | str | float | None = None
    conditioning: Literal["auto", "joint", "solver"] = "auto"
    ode_noise: float = 0.0
    pilot: bool = True
    likelihood: Literal["filter", "fenrir", "dalton"] = "filter"
    particle_filter: "ParticleFilter | None" = None

    def __post_init__(self) -> None:
        if self.linearisation is None:
            object.__setattr__(self, "linearisation", AUTOMATIC if self.substeps == "auto" else GIVEN)
        if self.diffusion is None:
            object.__setattr__(self, "diffusion", LOCAL)
        object.__setattr__(self, "linearisation", choose("linearisation", self.linearisation, LINEARISATIONS))
        check_algorithm("linearisation", self.linearisation, Linearisation, "EKF1()")
        if is_real(self.diffusion):
            if not 0 < self.diffusion < float("inf"):  # type: ignore[operator]
                raise InputError(f"diffusion is {self.diffusion!r}; a fixed one must be positive and finite.")
            object.__setattr__(self, "diffusion", Fixed(float(self.diffusion)))  # type: ignore[arg-type]
        object.__setattr__(self, "diffusion", choose("diffusion", self.diffusion, DIFFUSIONS))
        check_algorithm("diffusion", self.diffusion, Diffusion, "QuasiMLE()")
        if self.conditioning not in CONDITIONINGS:
            hint = did_you_mean(str(self.conditioning), CONDITIONINGS)
            raise InputError(f"conditioning is {self.conditioning!r}; it must be 'auto', 'joint' or 'solver'.{hint}")
        if self.conditioning == "joint" and self.linearisation.blocks:  # type: ignore[union-attr]
            raise InputError(
                "conditioning is 'joint', but with BlockEKF1 what data say of one coordinate does not reach the "
                "others; take 'solver', or linearisation='ekf1'."
            )
        if self.substeps != "auto" and not (is_whole(self.substeps) and 1 <= self.substeps <= MOST_SUBSTEPS):
            raise InputError(
                f"substeps is {self.substeps!r}; it must be a whole number from 1 to {MOST_SUBSTEPS}, or 'auto'."
            )
        if not (is_real(self.ode_noise) and 0 <= self.ode_noise < float("inf")):
            raise InputError(f"ode_noise is {self.ode_noise!r}; it must be a finite number, 0 or more.")
        if isinstance(self.smoothness, Mapping):  # a tuple, to be hashable
            object.__setattr__(self, "smoothness", tuple(self.smoothness.items()))
        if not isinstance(self.pilot, bool):
            raise InputError(f"pilot is {self.pilot!r}; it must be True or False.")
        self._check_likelihood()
        self._check_kinds()

    def _check_likelihood(self) -> None:
        if self.likelihood not in LIKELIHOODS:
            hint = did_you_mean(str(self.likelihood), LIKELIHOODS)
            raise InputError(f"likelihood is {self.likelihood!r}; it must be 'filter', 'fenrir' or 'dalton'.{hint}")
        if self.likelihood != "filter" and (self.conditioning == "solver" or self._blocks):
            cause = "conditioning is 'solver'" if self.conditioning == "solver" else "linearisation is BlockEKF1"
            raise InputError(
                f"likelihood is {self.likelihood!r}, which conditions the whole state on the data, but {cause}; take "
                "conditioning='joint' with linearisation='ekf1', or likelihood='filter'."
            )

    def _check_kinds(self) -> None:
        given = self.smoothness
        if not (is_real(given) or given in ("auto", "paper") or isinstance(given, tuple)):
            raise InputError(f"smoothness is {given!r}; it must be a whole number, a mapping by coordinate, or 'auto'.")

    @classmethod
    def paper(cls, **changes: Any) -> "Solver":
        """The choices of Longbottom, Champneys and Rogers: one derivative more than the order, one step per sample,
        EKF0, quasi-MLE, and a state that is not conditioned on the data.
        """
        chosen = cls("paper", 1, linearisation=EKF0(), diffusion=QuasiMLE(), conditioning="solver")
        return replace(chosen, **changes)

    def layout(self, model: Model) -> Layout:
        """The state's layout for a model, with automatic choices resolved."""
        smoothness = [self._smoothness_of(name, order, model) for name, order in model.coordinates.items()]
        return Layout(model.orders, tuple(smoothness))

    @property
    def joint(self) -> bool:
        """Whether the state is conditioned on the data."""
        return self.conditioning == "joint" or (self.conditioning == "auto" and not self._blocks)

    @property
    def _blocks(self) -> bool:
        assert self.linearisation is not None and not isinstance(self.linearisation, str)
        return self.linearisation.blocks

    def for_problem(self, problem: Problem) -> "Solver":
        """As `for_model`; the diffusion has a prior if it is inferred, and else has none."""
        inferred = isinstance(self.diffusion, Given)
        if inferred and problem.diffusion_names is None:
            raise InputError(
                "the solver's diffusion is 'inferred', but priors has no 'solver.diffusion'; give one, such as "
                "dist.LogNormal(0, 3)."
            )
        if not inferred and problem.diffusion_names is not None:
            raise InputError(
                f"priors names {problem.diffusion_names[0]!r}, but the solver's diffusion is {self.diffusion!r}; take "
                "Solver(diffusion='inferred')."
            )
        return self.for_model(problem.model, process_noise=problem.disturbed)

    def for_model(self, model: Model, *, process_noise: bool) -> "Solver":
        """With the conditioning chosen, and for large models the linearisation."""
        if self._blocks and process_noise:
            raise InputError(
                "linearisation is BlockEKF1, which leaves out how coordinates move each other, and process noise has "
                "to be followed through all of them; take 'ekf1'."
            )
        if self.likelihood != "filter" and process_noise:
            raise InputError(
                f"likelihood is {self.likelihood!r}, the density of the data given that the ODE holds; with process "
                "noise, unknown inputs or drifts it does not: take likelihood='filter'."
            )
        if self.conditioning != "auto":
            return self
        large = self.layout(model).size > LARGEST_UNROLLED and self.substeps == "auto" and not self.ode_noise
        if large and self.linearisation == AUTOMATIC and not process_noise and self.likelihood == "filter":
            return replace(self, linearisation=BlockEKF1(), conditioning="solver")
        return replace(self, conditioning="joint" if self.joint else "solver")

    @property
    def steps(self) -> int:
        """Integration steps per sampling interval."""
        return 1 if self.substeps == "auto" else int(self.substeps)

    def likelihood_filter(self, model: Model, jump_order: int | None = None) -> ODEFilter | DataGivenODE:
        """The filter whose energies are the likelihood: `ode_filter`, or two of them."""
        joint = self.ode_filter(model, jump_order)
        if self.likelihood == "filter":
            return joint
        alone = replace(joint, joint=False)
        return DataGivenODE(alone, replace(joint, joint=True, diffusion=Given()), self.likelihood == "fenrir")

    def ode_filter(self, model: Model, jump_order: int | None = None) -> ODEFilter:
        """The ODE filter for a model whose inputs' derivative of order `jump_order` jumps at samples (None: never).

        Unrolled up to `LARGEST_UNROLLED` components, and where the covariance consists of blocks; in arrays above.
        """
        check_jax()
        layout = self.layout(model)
        self._check_diffusion(model)
        further = max(q - n for n, q in zip(layout.orders, layout.smoothness, strict=True))
        assert self.linearisation is not None and not isinstance(self.linearisation, str)
        assert self.diffusion is not None and not isinstance(self.diffusion, (str, float))
        small = layout.size <= LARGEST_UNROLLED or self._blocks  # whose rows are mostly structural zeros
        filter_class = UnrolledFilter if small else ArrayFilter
        return filter_class(
            model,
            layout,
            self.linearisation,
            self.diffusion,
            ode_noise=float(self.ode_noise),
            joint=self.joint,
            restarts=jump_order is not None and jump_order <= further,
        )

    def _smoothness_of(self, name: str, order: int, model: Model) -> int:
        given: Any = self.smoothness
        if isinstance(given, tuple):
            named = dict(given)
            for key in named:
                if key not in model.coordinates:
                    hint = did_you_mean(key, model.coordinates)
                    raise InputError(f"smoothness names {key!r}, which is not a coordinate of the {model.name}.{hint}")
            given = named.get(name, "auto")
        if given == "auto":
            return order + 2
        if given == "paper":
            return order + 1
        if not is_whole(given) or not order <= given <= MAX_SMOOTHNESS:
            raise InputError(
                f"smoothness of {name!r} is {given!r}; it must be a whole number from the order of its ODE, "
                f"{order}, to {MAX_SMOOTHNESS}, or 'auto'."
            )
        return int(given)

    def _check_diffusion(self, model: Model) -> None:
        scale = getattr(self.diffusion, "scale", None)
        count = len(model.coordinates)
        if isinstance(scale, tuple) and len(scale) != count:
            raise InputError(f"the fixed diffusion has {len(scale)} values; the {model.name} has {count} coordinates.")
