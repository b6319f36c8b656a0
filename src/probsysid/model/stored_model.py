"""A model as data: the text of its equations, or the list of its operations, and back."""

from typing import Any

import jax

from probsysid._internal.errors import InputError
from probsysid._internal.plain_data import UnstorableError
from probsysid.model.equations import parse
from probsysid.model.model import Model, ModelFunction
from probsysid.model.model_equations import ModelEquations
from probsysid.model.stored_program import decode_program, encode_program


def encode_model(model: Model) -> dict[str, Any]:
    """Data for a model.  If its operations are not stored, the data say why: see `left_out`."""
    names = {
        "name": model.name,
        "coordinates": dict(model.coordinates),
        "shapes": {name: list(shape) for name, shape in model.shapes.items()},
        "units": dict(model.units),
        "parameters": list(model.parameter_names),
        "inputs": list(model.input_names),
        "outputs": list(model.output_names),
    }
    if model.needs_particle_filter:
        return {**names, "left_out": "a diffusion, and outputs that are distributions, are not stored"}
    written = equations_of(model)
    if written is not None:
        texts = {
            "equations": {name: equation.text for name, equation in written.equations.items()},
            "measured": {name: equation.text for name, equation in written.outputs.items()},
            "channels": list(written.inputs),
            "let": {name: equation.text for name, equation in written.let.items()},
        }
        return {**names, "texts": texts}
    try:
        dynamics, outputs = (encode_program(program) for program in model.programs)
        return {**names, "programs": {"dynamics": dynamics, "outputs": outputs, "jax": jax.__version__}}
    except UnstorableError as error:
        return {**names, "left_out": str(error)}


def equations_of(model: Model) -> ModelEquations | None:
    """The equations of a model that was made of texts."""
    found, other = (getattr(function, "__self__", None) for function in (model.dynamics, model.outputs))
    return found if isinstance(found, ModelEquations) and found is other else None


def left_out(data: dict[str, Any]) -> str:
    """Why the data hold no model; empty if they do."""
    return str(data.get("left_out", ""))


def decode_model(data: dict[str, Any]) -> Model:
    """The model; raises `InputError` if the data hold none, or none that this version of JAX can run."""
    if "texts" in data:
        dynamics, outputs = _written(data)
    elif "programs" in data:
        dynamics, outputs = _recorded(data)
    else:
        raise InputError(f"it was saved without its model, since {left_out(data) or 'it has none'}")
    shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
    return Model(data["coordinates"], dynamics, outputs, shapes=shapes, units=data["units"], name=data["name"])


def check_same_names(data: dict[str, Any], model: Model) -> None:
    """Raise unless a model has the names of the one that was stored."""
    found = {
        "coordinates": dict(model.coordinates),
        "parameters": sorted(model.parameter_names),
        "outputs": list(model.output_names),
    }
    stored = {**data, "parameters": sorted(data["parameters"])}
    for kind, names in found.items():
        if names != stored[kind]:
            raise InputError(f"the model given has the {kind} {names}; the one that was saved had {stored[kind]}.")


def _written(data: dict[str, Any]) -> tuple[ModelFunction, ModelFunction]:
    texts = data["texts"]
    equations = {name: parse(text) for name, text in texts["equations"].items()}
    outputs = {name: parse(text) for name, text in texts["measured"].items()}
    let = {name: parse(text) for name, text in texts.get("let", {}).items()}
    written = ModelEquations(data["coordinates"], equations, outputs, tuple(texts["channels"]), let)
    return written.dynamics, written.measured


def _recorded(data: dict[str, Any]) -> tuple[ModelFunction, ModelFunction]:
    programs, parameters, inputs = data["programs"], data["parameters"], data["inputs"]

    def function(which: str, results: list[str], kind: str) -> ModelFunction:
        program = decode_program(programs[which])

        def evaluate(s: Any, u: Any, p: Any) -> dict[str, Any]:
            given = {name: p[name] for name in parameters}  # in the order of the model, which its own names follow
            state = [s[name] for name in s]
            # JAX passes mappings in the order of their sorted keys
            arguments = [*state, *(u[name] for name in inputs), *(given[name] for name in sorted(given))]
            try:
                return dict(zip(results, program(arguments), strict=True))
            except (TypeError, ValueError, KeyError) as error:
                made = programs.get("jax")
                raise InputError(
                    f"the {kind} saved by JAX {made} cannot be run by JAX {jax.__version__} ({error})"
                ) from None

        return evaluate

    return function("dynamics", list(data["coordinates"]), "dynamics"), function("outputs", data["outputs"], "outputs")
