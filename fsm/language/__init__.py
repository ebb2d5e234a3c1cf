"""Read, build and write the TOML files for models, systems and properties."""
