"""Small wrong changes of the code that users run, made one at a time: `make mutants`."""
