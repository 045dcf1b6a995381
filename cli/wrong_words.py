"""Wrong words of a command line, as sentences that say what to write instead."""

import difflib
import re
from collections.abc import Sequence

import click

_given = re.compile(r"'?(.*?)'? is not ").match


def as_sentence(error: click.UsageError) -> click.UsageError:
    """Return a wrong use of the command in a sentence that says what to do; others as click says them."""
    if isinstance(error, click.NoSuchCommand):
        return click.UsageError(
            f"no such command {error.command_name!r}{guess(error.possibilities, error.ctx)}", error.ctx
        )
    if isinstance(error, click.NoSuchOption):
        return click.UsageError(
            f"no such option {error.option_name!r}{guess(error.possibilities, error.ctx)}", error.ctx
        )
    if isinstance(error, click.MissingParameter) and error.param is not None and error.ctx is not None:
        return click.UsageError(_missing(error.param, error.ctx), error.ctx)
    if isinstance(error, click.BadOptionUsage) and error.message.endswith("requires an argument."):
        # click names neither the command nor the option's help text here.
        return click.UsageError(f"{error.option_name} needs a value after it; --help says which", error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx is not None:
        return click.UsageError(_bad_value(error, error.param, error.ctx), error.ctx)
    return error


def guess(possibilities: Sequence[str] | None, ctx: click.Context | None) -> str:
    """Return the end of a sentence about a word that nobody knows: which one was meant, or where all are named."""
    if possibilities:
        return f"; did you mean {' or '.join(map(repr, possibilities))}?"
    return f"; {ctx.command_path if ctx else ''} --help names all"


def _missing(parameter: click.Parameter, ctx: click.Context) -> str:
    if isinstance(parameter, click.Option):
        words = f"{parameter.opts[0]} {parameter.make_metavar(ctx)}"
        return f"{parameter.opts[0]} is missing; add {words}: {parameter.help or 'see --help'}"
    names = " ".join(one.make_metavar(ctx) for one in ctx.command.params if isinstance(one, click.Argument))
    return f"{parameter.make_metavar(ctx).removesuffix('...')} is missing; write it as: {ctx.command_path} {names}"


def _bad_value(error: click.BadParameter, parameter: click.Parameter, ctx: click.Context) -> str:
    """Say what a value must be and what it is; as click says it where only click knows."""
    name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(ctx)
    given = _given(error.message)
    if isinstance(parameter.type, click.Choice):
        choices = list(parameter.type.choices)
        meant = difflib.get_close_matches(given[1] if given else "", choices, 1)
        what = f"one of {', '.join(choices)}"
        name = name if isinstance(parameter, click.Option) else "this"
        return f"{name} must be {what}{_not(given)}{guess(meant, ctx) if meant else ''}"
    for kind, noun in ((click.types.IntParamType, "a whole number"), (click.types.FloatParamType, "a number")):
        if isinstance(parameter.type, kind):
            return f"{name} must be {noun}{_bounds(parameter.type)}{_not(given)}"
    return f"{name}: {error.message}"


def _not(given: "re.Match[str] | None") -> str:
    return f", not {given[1]!r}" if given else ""


def _bounds(kind: object) -> str:
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f" of at least {low}" if low is not None else f" of at most {high}" if high is not None else ""
