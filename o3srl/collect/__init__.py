"""Logs made by oneself: behavior policies trained at a ladder of cost limits, and what of their training is kept."""
