"""The errors of the project: one base class, and one for bad input."""


class EvenflowError(Exception):
    """The base of all errors that evenflow raises deliberately."""


class InputError(EvenflowError, ValueError):
    """Bad input: the message names what was given, what was expected and what to do next.

    The command line prints it as one line and exits with code 2; no stack trace.
    """
