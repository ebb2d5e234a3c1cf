"""The TOML languages of models, systems and properties: their vocabulary, reading, building and writing."""
