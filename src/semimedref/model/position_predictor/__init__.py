"""Image-only predictors of the regions that a report names, and what they cost."""
