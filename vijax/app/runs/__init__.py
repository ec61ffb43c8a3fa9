"""A run and its folder: started, gone on with, restored, seen to its end."""
