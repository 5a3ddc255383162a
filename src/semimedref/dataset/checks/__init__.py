"""What `semimedref data verify` looks at, one file for each question."""
