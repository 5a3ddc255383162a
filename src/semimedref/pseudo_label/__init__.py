"""Pseudo-labelling rules: from the teacher's probability to the student's target."""
