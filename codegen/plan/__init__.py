"""Sites and specs in, a frozen plan out: every site decided, every edit and file made, nothing written."""
