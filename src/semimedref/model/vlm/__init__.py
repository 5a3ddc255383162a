"""Networks that are trained to match images and sentences, before any mask is seen."""
