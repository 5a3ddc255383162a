"""What an experiment will cost before it is started: cells, GPU hours, memory and disk."""
