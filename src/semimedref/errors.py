"""The one exception for bad input: the command line prints it as one line and exits with 2."""


class UserError(ValueError):
    """What was found, what was expected, and the command that helps, in one sentence."""
