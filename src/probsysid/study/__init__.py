"""Study files: from a TOML file and a data file to a folder of results."""
