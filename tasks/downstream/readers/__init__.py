"""Official files of downstream tasks to records."""
