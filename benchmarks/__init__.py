"""Speed as ratios: each benchmark times our way and the obvious way in one run on one machine.

python -m benchmarks                     all, some minutes, most of them for `step`
python -m benchmarks text ema            some
python -m benchmarks step --paper-batch 32   the step at the paper's batch; slow, much memory
python -m benchmarks --json speed.json   the same numbers as a file
"""
