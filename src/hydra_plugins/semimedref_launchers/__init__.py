"""Hydra launchers: a SLURM cluster, and the GPUs of this machine."""
