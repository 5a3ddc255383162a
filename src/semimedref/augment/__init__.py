"""Weak and strong views: each a function of the batch and of its own random numbers."""
