"""The learners: FINO, its rivals, the floors."""
