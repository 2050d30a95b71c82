# SPDX-License-Identifier: Apache-2.0
"""The entry point: finds the verb, runs it, and turns every error into a message and an exit code.

0 done; 1 a requirement is not met; 2 input or usage; 3 a bug; 130 interrupted; 129 and 143
terminated.

The code is that of the work, whoever reads the output: a closed stdout or stderr takes what is
written to it and changes nothing (`Outlet`).
"""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, TextIO

import click

from calipers import __version__
from calipers.engine.signals import (
    die_of_signals,
    is_stopped,
    leave_on_signals,
    raise_on_signals,
    word_and_code,
)
from calipers.errors import CalipersError, InputError, InputProblems, did_you_mean

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# The reader of a pipe left, the terminal hung up, or the stream was closed before the start.
GONE = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ESHUTDOWN)
VERBS = {
    "demo": (
        "calipers.cli.demo:demo",
        "evaluate synthetic data and write a page",
    ),
    "inspect": (
        "calipers.cli.evaluate:inspect",
        "show how files are read, what is wrong with them, and the command that works",
    ),
    "doctor": ("calipers.cli.evaluate:inspect", "another name for inspect"),
    "evaluate": ("calipers.cli.evaluate:evaluate", "evaluate predictions against references"),
    "maps": ("calipers.cli.maps:maps", "evaluate score maps against label images or volumes"),
    "compare": (
        "calipers.cli.compare:compare",
        "test whether models differ on the same images, and rank them",
    ),
    "multiverse": (
        "calipers.cli.sensitivity:multiverse",
        "test how sensitive the ranking is to analysis choices",
    ),
    "train": (
        "calipers.cli.training:train",
        "train networks that mark where a finding is, or detectors",
    ),
    "predict": (
        "calipers.cli.training:predict",
        "write the maps or boxes of trained networks",
    ),
    "stability": (
        "calipers.cli.stability:stability",
        "measure how well repeated trainings of a model agree",
    ),
    "monitor": (
        "calipers.cli.monitor:monitor",
        "test whether a monitor finds the images on which a model fails",
    ),
    "agreement": (
        "calipers.cli.agreement:agreement",
        "compare localization criteria with ratings by clinicians",
    ),
    "mixed": (
        "calipers.cli.mixed:mixed",
        "model what IoU depends on, with patients and centres as random effects",
    ),
    "sweep": (
        "calipers.cli.sensitivity:sweep",
        "show how metrics depend on one or two choices, or on a known error",
    ),
    "corrupt": (
        "calipers.cli.demo:corrupt",
        "write references with known errors, as predictions of an oracle",
    ),
    "fuse": (
        "calipers.cli.fuse:fuse",
        "fuse the predictions of several models into those of an ensemble",
    ),
    "check": ("calipers.cli.evaluate:check", "check an evaluation against acceptance limits"),
    "report": (
        "calipers.cli.saved:report",
        "write the page of a saved evaluation again, from its folder alone",
    ),
    "verify": (
        "calipers.cli.saved:verify",
        "recompute a saved evaluation and compare every value",
    ),
    "merge": ("calipers.cli.engine:merge", "merge the parts of a long run into one result"),
    "boxes": ("calipers.cli.maps:boxes", "turn heat maps into boxes with scores"),
    "study": (
        "calipers.cli.demo:study",
        "reproduce a published experiment and check its claims",
    ),
    "convert": (
        "calipers.cli.evaluate:convert",
        "write references or predictions in another format",
    ),
}


# What users look for under another name, and the words that do it.
SYNONYMS = {
    "rank": "calipers compare ranks models, also those of saved results: --rank METRIC",
    "read": "calipers doctor shows how files are read",
    "validate": "calipers doctor checks files, and calipers verify a saved result",
}


class Verbs(click.Group):
    """A group that imports a verb only when it is used, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one gets the nearest name."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            hint = SYNONYMS.get(args[0]) or did_you_mean(args[0], VERBS)
            raise click.UsageError(f"no verb {args[0]!r}; {hint}")
        resolution = super().resolve_command(ctx, args)
        raise_on_signals()  # its modules are loaded, and it may open files
        return resolution

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from calipers.kernels.route import describe

        click.echo(f"calipers {__version__} ({describe()})")
        ctx.exit(0)


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="calipers VERB --help explains a verb. Start with: calipers demo",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version.",
)
def cli() -> None:
    """Does the model find the right thing in the right place, and how certain is the answer?"""


class Outlet(io.FileIO):
    """The file behind stdout or stderr: where nobody reads any more, output is dropped.

    Whoever leaves early, as ``head -1`` does, has read enough. The verb goes on and ends with its
    own verdict; an error in the middle of the output would end it with another one.
    """

    def __init__(self, handle: int, *, vital: bool) -> None:
        super().__init__(handle, "wb", closefd=False)
        self.vital = vital  # a full disk behind stdout loses the result; messages may get lost

    def write(self, data: Any, /) -> int:
        """Write, or drop what nobody can read."""
        terminal = sys.modules.get("calipers.show.terminal")  # verbs import it
        try:
            with nullcontext() if terminal is None else terminal.printing():
                return super().write(data)
        except OSError as error:
            if self.vital and error.errno not in GONE:
                raise
            return memoryview(data).nbytes


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    leave_on_signals()
    sys.stdout, sys.stderr = _outlet(sys.stdout, vital=True), _outlet(sys.stderr, vital=False)
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = run(words)
        die_of_signals()
    except KeyboardInterrupt as stop:  # while the result or an error was printed
        die_of_signals()
        code = _stopped(stop, words, "--json" in words)
    # If Ctrl-C came while a module compiled a class from text, Python remembers that, and ends with
    # the signal whatever our exit code is. The next text that it runs makes it forget.
    exec("pass")
    sys.exit(code)


def _outlet(stream: TextIO | None, *, vital: bool) -> TextIO:
    """Return a stream to the same place that does not fail if its reader left."""
    if stream is None:  # closed by the shell
        return open(os.devnull, "w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(Outlet(stream.fileno(), vital=vital)),
        encoding=stream.encoding,
        # A name that the terminal cannot show is no reason to stop.
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
    )


def _has_bytes(text: str) -> bool:
    """Return whether a text is UTF-8; a name of a file may be any bytes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def run(argv: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    argv = list(argv)
    as_json = "--json" in argv
    if argv[:1] == ["help"]:
        argv = [*argv[1:2], "--help"]
    if not argv:
        click.echo(
            cli.get_help(click.Context(cli, info_name="calipers", **cli.context_settings)), err=True
        )
        return 2
    for word in argv:
        if not _has_bytes(word):
            # It would stand in the record of the run, which is JSON in UTF-8.
            message = f"names and values are text in UTF-8, not {word!a}; rename the file"
            return _fail("usage", message, as_json, 2)
    try:
        code = cli.main(argv, prog_name="calipers", standalone_mode=False, obj=["calipers", *argv])
        # Here, where a full disk can still be reported.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt) as stop:
        return _stopped(stop.__cause__ or stop, argv, as_json)  # click wraps it
    except click.ClickException as error:
        command = "calipers"
        if isinstance(error, click.UsageError) and error.ctx:
            command = error.ctx.command_path
        return _fail("usage", f"{error.format_message()}\n  try: {command} --help", as_json, 2)
    except CalipersError as error:
        return _fail_typed(error, as_json)
    except Exception as error:
        if _is_out_of_memory(error):
            hint = "give fewer images or models at a time, or use a machine with more memory"
            message = f"not enough memory for these inputs [memory]\n  hint: {hint}"
            return _fail("memory", message, as_json, 2)
        if is_stopped():  # a module that was being imported says so in its own way
            return _stopped(None, argv, as_json)
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            # Files report this themselves; this is stdout, so the message goes to stderr.
            _drop_stdout()
            return _fail(
                "disk-full", "stdout: no space left to write the result [disk-full]", False, 2
            )
        if isinstance(error, OSError) and error.errno is not None:
            # A name that is too long, a folder without rights, a file that went away meanwhile:
            # readers say it better, but it is never a fault of the program.
            message = f"{error.filename or 'a file'}: {error.strerror} [not-readable]"
            return _fail("not-readable", message, as_json, 2)
        return _bug(error, argv, as_json)


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether there was no memory left, be it for a compiled module that was imported."""
    # As the loader of glibc says it.
    words = ("failed to map segment", "cannot allocate memory", "cannot create shared object")
    is_of_loader = isinstance(error, ImportError) and any(word in str(error) for word in words)
    is_of_system = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or is_of_loader or is_of_system


def _stopped(stop: BaseException | None, argv: Sequence[str], as_json: bool) -> int:
    word, code = word_and_code(stop)
    notes = getattr(stop, "__notes__", None) or ["nothing was left half-written"]
    again = shlex.join(["calipers", *argv])
    return _fail(word, f"{word}; {'; '.join(notes)}. To run it again: {again}", as_json, code)


def _drop_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_typed(error: CalipersError, as_json: bool) -> int:
    from calipers.show.terminal import error_text

    facts: dict[str, object] = {}
    if isinstance(error, InputProblems):
        facts = {
            "total": error.total,
            "problems": [problem.as_dict() for problem in error.problems[: error.SHOWN]],
        }
    elif isinstance(error, InputError):
        facts = {"total": 1, "problems": [error.as_dict()]}
    kind = error.rule if isinstance(error, InputError) else "usage"
    return _fail(kind, error_text(error), as_json, error.exit_code, **facts)


def _fail(kind: str, message: str, as_json: bool, code: int, **facts: object) -> int:
    if as_json:
        error = {"kind": kind, "message": message, "exit": code, **facts}
        document = {"schema": "calipers.error/1", "calipers": __version__, "error": error}
        try:
            click.echo(json.dumps(document))
        except OSError:  # a full disk behind stdout: the exit code still tells
            _drop_stdout()
    else:
        from calipers.show.terminal import clear_progress, printable

        clear_progress()
        click.echo(f"error: {printable(message)}", err=True)
    return code


def _bug(error: Exception, argv: Sequence[str], as_json: bool) -> int:
    import platform
    import traceback

    block = "\n".join(
        [
            "This is a bug in Calipers. Please paste the following into a report:",
            f"calipers {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {shlex.join(['calipers', *argv])}",
            "".join(traceback.format_exception(error)).rstrip(),
        ]
    )
    return _fail("bug", block, as_json, 3)
