"""Speed as ratios: each benchmark times our way and the obvious way in one run on one machine.

python -m benchmarks                     all, about a minute
python -m benchmarks text ema            some
python -m benchmarks --json speed.json   the same numbers as a file
"""
