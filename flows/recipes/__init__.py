"""Settings of the flows: presets (TOML), dotted overrides, and the checked models that both are read into."""
