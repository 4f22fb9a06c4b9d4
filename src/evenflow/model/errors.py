"""What a user did wrong, said in one line."""


class InputError(ValueError):
    """Bad input: the message names what was given, what was expected and what to do next.

    The command line prints it as one line and exits with code 2; no stack trace.
    """
