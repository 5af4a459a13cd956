"""Errors that a user can act on: one paragraph that says what is wrong, where, and what to do."""


class O3SRLError(Exception):
    """Base of every error that names its own remedy; the command line prints it without a traceback."""


class DataError(O3SRLError):
    """A log that cannot be trained on: names the file, the column, the row and the fix."""


class ConfigError(O3SRLError):
    """Settings that cannot work, alone or together: names the flag and the ways out."""


class RunError(O3SRLError):
    """A run directory or checkpoint that is missing, foreign, truncated or in the way."""
