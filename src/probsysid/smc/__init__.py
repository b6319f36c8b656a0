"""Sequential Monte Carlo over parameters: iterated batch importance sampling, in batch and online."""
