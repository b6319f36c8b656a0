"""Support that every other folder uses: JAX's set-up, errors, checks of values, files, worker threads."""
