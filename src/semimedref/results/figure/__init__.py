"""Figures for print: one file for each kind, each with a caption and a table of its numbers."""
