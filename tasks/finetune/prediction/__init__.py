"""Prediction with a fine-tuned model: texts, and files row by row."""
