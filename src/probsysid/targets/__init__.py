"""The posterior density that the sampler explores, with energies from the ODE filter."""
