"""How far to trust a prediction.

guards    what training saw; rollouts that leave it, or leave all bounds
"""
