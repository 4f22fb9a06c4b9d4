"""The errors that evenflow raises. Each says in one line what was given, what was expected, what to do."""


class EvenflowError(Exception):
    """The base of every error that evenflow raises on purpose.

    `except evenflow.EvenflowError` catches bad input, damaged checkpoints and failed queries alike.
    """


class InputError(EvenflowError, ValueError):
    """Bad input: the message names what was given, what was expected and what to do next.

    The command line prints it as one line and exits with code 2, without a stack trace.
    """
