"""A Candle tree: fetched from the crate registry or a checkout given by path; its release, crates and manifests."""
