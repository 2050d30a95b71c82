"""Why tests of networks are skipped, in the same words everywhere, so that it is one line."""

NEEDS_TORCH = "networks need PyTorch: make test-train"
