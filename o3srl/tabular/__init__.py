"""Finite problems with exact answers, on which the theorems can be checked."""
