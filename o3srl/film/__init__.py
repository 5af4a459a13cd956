"""Films of episodes, with what is earned and spent drawn in."""
