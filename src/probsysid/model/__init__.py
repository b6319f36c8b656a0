"""The question: a model's equations, priors as a parameter space, and the problem that joins them."""
