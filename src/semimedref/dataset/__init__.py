"""Images, sentences and masks: data sets, splits, loaders."""
