"""Fields larger than one device: exact tiles, exact halos, regions.

boxes           tiles, windows and blocks of a domain
store           trajectories in memory or on disk, box by box
local           a local step in a window
tiles           marching tile by tile
rollout         `fino.rollout`, regions, `fino.update`
ranks           one domain on many processes
process_group   joining processes, naming one that died
"""
