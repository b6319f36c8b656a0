"""Three public benchmarks of nonlinear system identification: their data, models and ways of scoring."""
