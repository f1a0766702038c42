"""Libraries that run the loop, stream the data or bring the datasets."""
