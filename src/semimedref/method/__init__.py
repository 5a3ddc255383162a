"""Training methods: where augmentation, network and losses meet."""
