"""Process noise: a white-noise force on a coordinate, d x^(n-1) = f dt + s dW, in units of x^(n-1) per root second.

A kick of the force at a time tau before the end of a step moves the state to another solution of the ODE.  Over the
step, kicks add up to a Gaussian with the covariance

    s^2  integral over tau from 0 to h of  phi(tau) phi(tau)'

with phi(tau) the response of all components to a unit kick of x^(n-1).  The filter integrates the ODE over the step and
then adds this covariance.  As every kick stays on the ODE's solutions, highest and higher derivatives included, ODE
residuals are the same with and without it: it neither changes the integration error nor is changed by it, and its
effect does not depend on smoothness or step.

The response is that of the ODE linearised at the end of the step, by its Taylor series; the integral is a sum over
Gauss-Legendre nodes, each of which is a column of the covariance factor.  Where the ODE is x^(n) = u(t), both are
exact.
"""

from math import factorial

import numpy as np
from jaxtyping import Float

from probsysid.odefilter.layout import Layout

TERMS = 8
"""Terms of the Taylor series: what is left out is (h |J|)^8 / 8!, 1e-8 at a fifth of the time constant of the ODE."""


def kick_weights(layout: Layout) -> Float[np.ndarray, "node term"]:
    """Coefficients of the k-th derivative, times step^(k + 1/2), in a column of the factor, for every node.

    The response to a kick of x^(n-1) is a polynomial of degree n - 1 where the ODE does not answer, and its square of
    degree 2 n - 2: n nodes are exact for it, and two more follow the ODE's answer.
    """
    nodes, weights = np.polynomial.legendre.leggauss(max(layout.orders) + 2)
    tau = (nodes + 1) / 2
    powers = [tau**k / factorial(k) for k in range(TERMS)]
    return np.sqrt(weights / 2)[:, None] * np.stack(powers, axis=1)
