"""The networks and objectives of Yiwen. Needs torch, numpy and transformers only; knows nothing of Prefect, Ray or
Parquet.
"""
