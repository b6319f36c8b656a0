"""From records, a model and priors to a posterior, in batch and online."""
