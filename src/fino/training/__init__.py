"""The workshop: loss, schedule, loop, checkpoints."""
