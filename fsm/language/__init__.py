"""The TOML languages for models, systems and properties: vocabulary, reading, building and writing."""
