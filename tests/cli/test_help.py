"""Help texts are complete: every command and every option says what it does."""

import click
import pytest

from pykueue.cli.kubectl_plugin import kueue
from pykueue.cli.main import cli

SHORT_HELP_COLUMNS = 56


def commands(group, path):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


COMMANDS = dict([*commands(cli, "pykueue"), *commands(kueue, "kubectl kueue")])


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_line_is_a_sentence_that_fits_into_the_list_of_commands(name):
    first_line = COMMANDS[name].help.partition("\n")[0]
    assert first_line[0].isupper()
    assert first_line.endswith(".")
    assert len(first_line) <= SHORT_HELP_COLUMNS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described_by_sentences(name):
    helps = {option.name: option.help for option in COMMANDS[name].params if isinstance(option, click.Option)}
    assert [
        option for option, text in helps.items() if not text or not text[0].isupper() or not text.endswith(".")
    ] == []
