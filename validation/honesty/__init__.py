"""The honesty matrix: are posteriors as wrong as they say, whatever integrates the ODE?"""
