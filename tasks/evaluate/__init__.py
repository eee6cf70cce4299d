"""What models have learnt, measured without fine-tuning or on tasks that are made from the data at hand."""
