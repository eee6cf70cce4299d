"""The objectives of five papers on one encoder: which models there are, their scores by task, and the page."""
