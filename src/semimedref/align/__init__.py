"""Contrastive alignment of images and sentences."""
