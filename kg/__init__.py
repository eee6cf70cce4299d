"""Knowledge graphs: reading, fusing, linking, ranking and embedding them, without Prefect or Ray."""
