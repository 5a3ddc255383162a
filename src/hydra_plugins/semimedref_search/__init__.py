"""The search sweeper of semimedref (Hydra finds plug-ins in this namespace only)."""
