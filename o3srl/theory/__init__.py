"""`o3srl theory`: what the paper states, checked on finite problems whose answers are exact."""
