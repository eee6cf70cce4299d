"""Networks and objectives of Yiwen. They need torch, numpy and transformers only: no Prefect, Ray or Parquet."""
