"""Stage `finetune`: grids of trials over a downstream task; prediction and comparison of runs."""
