"""Templates and the typed models they are rendered from."""
