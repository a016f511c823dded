"""Sites and specs in, a frozen plan out; the plan written into a tree, checked, and taken back."""
