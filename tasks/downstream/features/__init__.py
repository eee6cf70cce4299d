"""Records of downstream tasks to tokens and labels, and predictions back to records."""
