"""Can the posterior be trusted?  Integration, residuals, identifiability, where the variance comes from."""
