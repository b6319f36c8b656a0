"""Worker that times other libraries' filters; it runs in their own environment, never in that of probsysid.

It reads one request per line from standard input, `{"case": {...}, "kernel": ..., "action": "prepare" | "run"}`, and
answers each with one line of JSON, so that `kernel.py` can interleave these runs with its own.  A case names a problem,
its smoothness and sampling interval, and the numbers of particles and samples.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from problems import CHAINS, PROBLEMS, Data, Problem, first_order, highest, make_data

jax.config.update("jax_enable_x64", True)

DISTRIBUTIONS = ("probdiffeq", "rodeo", "jax", "jaxlib", "numpy")


def derivatives(problem: Problem, data: Data, parameters: dict[str, Any]) -> list[list[Any]]:
    """Of each coordinate, at the first sample: physical components, the highest derivative, and one above it."""
    point = [jnp.asarray(value) for value in data.initial]
    force, slope = (jnp.asarray(value) for value in data.inputs[0])

    def dynamics(x: Any, u: Any) -> list[Any]:
        return highest(problem, x, u, parameters)

    top, above = jax.jvp(dynamics, (point, force), (first_order(problem, point, force, parameters), slope))
    result = []
    for order, first, second in zip(problem.coordinates.values(), top, above, strict=True):
        result.append([*point[:order], first, second])
        point = point[order:]
    return result


def probdiffeq_filter(problem: Problem, data: Data, condition_on_data: bool) -> Callable[[dict[str, Any]], Any]:
    """Dense first-order Taylor linearisation (TS1), filter, running maximum-likelihood scale, fixed steps.

    Its coordinates all have the same number of derivatives.  Orders may be mixed, in the form of a residual: Bouc-Wen
    is the pair (x, z) with three derivatives each, D = 8, conditioned on ddx = ... and dz = ... .
    """
    from probdiffeq import probdiffeq
    from probdiffeq._probdiffeq.ssm_impl_dense import DenseLatentCond, DenseNormal
    from probdiffeq.backend import linalg

    orders = tuple(problem.coordinates.values())
    count = len(orders)
    q = max(problem.smoothness)
    linearised = probdiffeq.jacobian_materialize(jacfun=jax.jacfwd)
    model = probdiffeq.state_space_model_dense()
    measured = np.zeros((1, (q + 1) * count))
    measured[0, _measured_derivative(problem) * count] = 1.0  # a derivative of the first coordinate
    # A coordinate that gets more derivatives here than it has elsewhere needs a diffusion of their size.
    scale = [d / problem.dt ** (q - own) for d, own in zip(problem.diffusion, problem.smoothness, strict=True)]

    def solver(force: Any, parameters: dict[str, Any]) -> Any:
        def residual(u: Any, du: Any, ddu: Any, /, *, t: Any) -> Any:
            levels = (u, du, ddu)
            physical = [levels[i][c] for c, order in enumerate(orders) for i in range(order)]
            values = highest(problem, physical, force, parameters)
            return jnp.stack([levels[order][c] - values[c] for c, order in enumerate(orders)])

        constraint = model.constraint_residual(probdiffeq.residual_acceleration(residual, jacobian=linearised))
        return probdiffeq.solver_mle(constraint=constraint, strategy=probdiffeq.strategy_filter())

    def condition(state: Any, y: Any) -> tuple[Any, Any]:
        noise = DenseNormal.from_mean_and_std([jnp.zeros(1)], [jnp.full(1, problem.noise)])
        observation = DenseLatentCond.from_linop_and_noise(jnp.asarray(measured), noise)
        density, updated = observation.bayes_rule_and_logpdf_tree([y[None]], state.u, solve_triu=linalg.solve_triu)
        return replace(state, u=updated, solution_full=updated), -density

    def run(parameters: dict[str, Any]) -> Any:
        known = derivatives(problem, data, parameters)
        coefficients = [
            jnp.stack([terms[i] if i < len(terms) else jnp.zeros(()) for terms in known]) for i in range(q + 1)
        ]
        prior = model.prior_wiener_integrated(coefficients, output_scale=jnp.array(scale))
        start = solver(jnp.asarray(data.inputs[0, 0]), parameters).init(t=jnp.zeros(()), u=prior, damp=0.0)
        start = jax.tree.map(jnp.asarray, start)

        def step(state: Any, sample: tuple[Any, Any]) -> tuple[Any, Any]:
            force, y = sample
            new = solver(force, parameters).step(state, dt=problem.dt, damp=0.0)
            energy: Any = new.u.mean_flat[0]
            if condition_on_data:
                new, energy = condition(new, y)
            return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, state), energy

        return jax.lax.scan(step, start, (jnp.asarray(data.inputs[1:, 0]), jnp.asarray(data.outputs[1:])))[1]

    return run


def rodeo_filter(problem: Problem, data: Data, condition_on_data: bool) -> Callable[[dict[str, Any]], Any]:
    """First-order interrogation (Kramer et al.), square-root Kalman functions, one dense block.

    One block holds all coordinates, so that the Jacobian is complete and each coordinate keeps its own order and
    smoothness: the same state as ours.  Data enter as in the library's DALTON: by a second Kalman update.
    """
    from rodeo.interrogate import interrogate_kramer
    from rodeo.kalmantv import square_root
    from rodeo.prior.ibm import ibm_state

    orders = tuple(problem.coordinates.values())
    offsets = np.cumsum([0, *(q + 1 for q in problem.smoothness)])
    size = int(offsets[-1])
    transition, factor = np.zeros((size, size)), np.zeros((size, size))
    weight, measured = np.zeros((1, len(orders), size)), np.zeros((1, size))
    for c, (order, q, scale) in enumerate(zip(orders, problem.smoothness, problem.diffusion, strict=True)):
        part = slice(offsets[c], offsets[c + 1])
        a, r = (np.asarray(matrix) for matrix in ibm_state(problem.dt, q, scale))
        unit = np.sqrt(np.diag(r))
        transition[part, part] = a
        factor[part, part] = unit[:, None] * np.linalg.cholesky(r / unit[:, None] / unit[None, :])
        weight[0, c, offsets[c] + order] = 1.0
    measured[0, _measured_derivative(problem)] = 1.0
    noise = np.full((1, 1), problem.noise)

    def ode(x: Any, t: Any, force: Any, parameters: dict[str, Any]) -> Any:
        physical = [x[0, offsets[c] + i] for c, order in enumerate(orders) for i in range(order)]
        return jnp.stack(highest(problem, physical, force, parameters))[None]

    def run(parameters: dict[str, Any]) -> Any:
        known = derivatives(problem, data, parameters)
        padded = [[*terms, *[jnp.zeros(())] * q][: q + 1] for terms, q in zip(known, problem.smoothness, strict=True)]
        start = jnp.stack([value for terms in padded for value in terms])

        def step(state: Any, sample: tuple[Any, Any]) -> tuple[Any, Any]:
            force, y = sample
            mean, root = square_root.predict(*state, jnp.zeros(size), jnp.asarray(transition), jnp.asarray(factor))
            slopes, offset, variance = interrogate_kramer(
                None, ode, jnp.asarray(weight), 0.0, mean[None], root[None], force=force, parameters=parameters
            )
            mean, root = square_root.update(
                mean, root, jnp.zeros(len(orders)), offset[0], (weight + slopes)[0], variance[0]
            )
            energy: Any = mean[0]
            if condition_on_data:
                observation = (jnp.zeros(1), jnp.asarray(measured), jnp.asarray(noise))
                predicted, spread = square_root.forecast(mean, root, *observation)
                energy = 0.5 * (jnp.log(2 * jnp.pi * spread[0, 0]) + (y - predicted[0]) ** 2 / spread[0, 0])
                mean, root = square_root.update(mean, root, y[None], *observation)
            return (mean, root), energy

        samples = (jnp.asarray(data.inputs[1:, 0]), jnp.asarray(data.outputs[1:]))
        return jax.lax.scan(step, (start, jnp.zeros((size, size))), samples)[1]

    return run


def _measured_derivative(problem: Problem) -> int:
    """Which derivative of the first coordinate is measured."""
    names = {"d" * i: i for i in range(3)}
    first = next(iter(problem.coordinates))
    probe = SimpleNamespace(**{prefix + first: i for prefix, i in names.items()})
    (value,) = problem.outputs(probe, None, None).values()
    return value


KERNELS = {
    "probdiffeq": lambda problem, data: probdiffeq_filter(problem, data, True),
    "rodeo": lambda problem, data: rodeo_filter(problem, data, True),
    "probdiffeq_without_data": lambda problem, data: probdiffeq_filter(problem, data, False),
    "rodeo_without_data": lambda problem, data: rodeo_filter(problem, data, False),
}


class Worker:
    """Compiled kernels by case and name."""

    def __init__(self) -> None:
        self.compiled: dict[tuple[str, str], tuple[Any, Any]] = {}

    def prepare(self, case: dict[str, Any], kernel: str) -> dict[str, Any]:
        known = {problem.name: problem for problem in (*PROBLEMS, *CHAINS)}
        setting = replace(known[case["problem"]], smoothness=tuple(case["smoothness"]), dt=case["dt"])
        data = make_data(setting, case["samples"], case["particles"])
        run = KERNELS[kernel](setting, data)
        parameters = {name: jnp.asarray(values) for name, values in data.parameters.items()}
        begin = time.process_time()
        compiled = jax.jit(jax.vmap(run, in_axes=0, out_axes=1)).lower(parameters).compile()
        seconds = time.process_time() - begin
        self.compiled[str(case), kernel] = compiled, parameters
        energies = np.asarray(compiled(parameters))
        if not np.all(np.isfinite(energies)):
            return {"error": f"{np.mean(~np.isfinite(energies)):.1%} of results not finite"}
        return {"compile_seconds": seconds, "energy": float(energies.sum(0).mean())}

    def run(self, case: dict[str, Any], kernel: str) -> dict[str, Any]:
        compiled, parameters = self.compiled[str(case), kernel]
        begin = time.process_time()
        jax.block_until_ready(compiled(parameters))
        return {"seconds": time.process_time() - begin}


def main() -> None:
    worker = Worker()
    print(json.dumps({"versions": {name: version(name) for name in DISTRIBUTIONS}}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        action = worker.prepare if request["action"] == "prepare" else worker.run
        try:
            answer = action(request["case"], request["kernel"])
        except Exception as error:  # the parent decides what to do without this kernel
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
