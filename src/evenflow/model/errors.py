"""The errors of the project: one base, and the one for what a user did wrong."""


class EvenflowError(Exception):
    """The base of every error that evenflow raises on purpose."""


class InputError(EvenflowError, ValueError):
    """Bad input: the message names what was given, what was expected and what to do next.

    The command line prints it as one line and exits with code 2; no stack trace.
    """
