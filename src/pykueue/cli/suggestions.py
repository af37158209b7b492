"""Groups of commands that suggest the name that was probably meant, and escape what errors say."""

from typing import Any

import click

from pykueue.api import escaping

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
_ELSEWHERE = {
    "jobs": "list",
    "kill": "cancel",
    "ps": "list",
    "queue": "list",
    "rm": "cancel",
    "sacct": "history",
    "sbatch": "submit",
    "scancel": "cancel",
    "squeue": "list",
    "srun": "run",
    "start": "up",
}
"""Commands of Slurm, HyperQueue and Docker, and ours that do the same."""


class SuggestingGroup(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Its error may contain text of users, as everything else it prints."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from pykueue.cli import output as outputs

            outputs.echo(err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except click.ClickException as error:
            vars(error)["message"] = escaping.paragraphs(error.message)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            names, word = self.list_commands(ctx), str(args[0])
            if word == "help":
                command = " ".join((ctx.command_path, *args[1:], "--help"))
                raise click.UsageError(f"{error.message} `{command}` prints the help.", ctx) from None
            begun = [name for name in names if name.startswith(word)] if len(word) > 1 else []
            elsewhere = [_ELSEWHERE[word]] if _ELSEWHERE.get(word) in names else []
            close = begun or elsewhere or difflib.get_close_matches(word, names, n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None
