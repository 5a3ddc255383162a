"""The words of the referring sentences: regions, captions, edits."""
