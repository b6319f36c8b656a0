"""Support for all other folders: JAX's configuration, errors, validation, files, packed trees and a background thread.

Nothing here knows of records, models or samplers.
"""
