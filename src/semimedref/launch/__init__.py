"""Start cells elsewhere: on a SLURM cluster, or one process a GPU on this machine."""
