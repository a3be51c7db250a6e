"""What accounts and resources together decide: the compiled table, limits counted, the simulator."""
