"""Published checkpoints: which tensor of theirs is which of ours, one module a network."""
