"""Fields larger than one device: exact tiles, exact halos, regions."""
