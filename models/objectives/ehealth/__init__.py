"""eHealth's objective: masked language modelling, replaced token detection, multi-token selection, contrastive
sequence prediction.
"""
