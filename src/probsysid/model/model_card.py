"""What notebooks show for a model: its equations as mathematics, and its parameters, inputs and outputs."""

from typing import TYPE_CHECKING

from probsysid._internal.notebook import Card
from probsysid.model.equations import Equation
from probsysid.model.mathml import equation_of_motion, intermediate, output_equation
from probsysid.model.model_equations import ModelEquations
from probsysid.model.program_equations import UnwritableError, program_equations

if TYPE_CHECKING:
    from probsysid.model.model import Model


def model_card(model: "Model") -> Card:
    """Equations as they were written, or as read from the recorded operations of a Python function."""
    facts = []
    for word, names in (
        ("parameters", model.parameter_names),
        ("inputs", model.input_names),
        ("outputs", model.output_names),
    ):
        listed = (f"{name} [{model.units[name]}]" if name in model.units else name for name in names)
        facts += [f"{word}: {', '.join(listed)}"] if names else []
    try:
        return Card(f"Model {model.name}", facts, mathematics=equations(model))
    except UnwritableError as error:
        return Card(f"Model {model.name}", [*facts, f"equations: a Python function ({error})"])


def equations(model: "Model") -> list[str]:
    """The equations of motion, intermediate expressions and outputs as blocks of MathML."""
    orders = model.coordinates
    written = getattr(model.dynamics, "__self__", None)
    if isinstance(written, ModelEquations):
        motion, outputs, let = dict(written.equations), dict(written.outputs), dict(written.let)
    else:
        given = [*model.input_names, *sorted(model.parameter_names)]
        dynamics, measured = model.programs
        found = program_equations(dynamics, [*model.physical_names, *given])
        motion = {name: Equation("", tree) for name, tree in zip(orders, found, strict=True)}
        found = program_equations(measured, [*model.physical_names, *model.highest_names, *given])
        outputs = {name: Equation("", tree) for name, tree in zip(model.output_names, found, strict=True)}
        let = {}
    return [
        *(equation_of_motion(name, orders[name], right, orders) for name, right in motion.items()),
        *(intermediate(name, right, orders) for name, right in let.items()),
        *(output_equation(name, right, orders) for name, right in outputs.items()),
    ]
