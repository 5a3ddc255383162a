"""``semimedref gpu-check``: the first hour on a GPU, and a report of it to send."""
