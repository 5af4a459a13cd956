"""Experiments: runs on disk, what is made of them, and nothing that an algorithm needs."""
