"""Searches: points proposed by Optuna, each an ordinary run, resumed without a change."""
