"""What to generate, as data: the spec models, the loader that reads them from YAML, and the checks between entries.

Others use `model` (what a spec may say), `loader.load_specs`, `loaded.LoadedSpecs`, `schema.schema_text` and
`usage.unused_templates`. Nothing is re-exported here, because importing the models costs pydantic's import time.
"""
