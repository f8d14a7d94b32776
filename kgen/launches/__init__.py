"""All launches of a kernel: their order on the target, and values that outlive a launch."""
