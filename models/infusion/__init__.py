"""Knowledge of mentions' neighbours infused into an encoder's states: SMedBERT's hybrid attention (section 3.3)."""
