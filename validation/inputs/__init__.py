"""Unknown inputs and drifts: simulated and measured cases, an augmented Kalman filter, and the page."""
