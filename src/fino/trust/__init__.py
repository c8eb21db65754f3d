"""How far to trust a prediction.

guards      what training saw; rollouts that leave it, or leave all bounds
equation    whether data were made with the equation of the training
bands       how far off a prediction may be
mirror      how far off one prediction is, asked of the mirror image of its start
"""
