"""`gatemini completion bash | zsh | fish`: a script that completes commands, options and names of clients."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from gatemini.cli import shell

SHELLS = ("bash", "zsh", "fish")
_GLOBAL = ("--direct", "--config", "--json", "--version", "--help")


class Words(NamedTuple):
    """The line of help of a command, and what may follow it: subcommands or values, and options."""

    about: str
    values: tuple[str, ...]
    options: tuple[str, ...]


def words_of_commands() -> dict[str, Words]:
    """Each command as it is typed (`config check`) with what may follow it."""
    from gatemini.cli.main import COMMANDS as TABLE

    found: dict[str, Words] = {"serve": Words("be the daemon", (), ("--config", "--help"))}
    for name, (module, about) in TABLE.items():
        commands: tuple[shell.Command, ...] = import_module(f"gatemini.cli.{module}").COMMANDS
        own = [command for command in commands if command.name == name]
        if not own:
            found[name] = Words(about, tuple(command.name for command in commands), ("--help",))
        for command in own or commands:
            key = name if own else f"{name} {command.name}"
            found[key] = Words(about, _values(command), _options(command))
    return found


def _options(command: shell.Command) -> tuple[str, ...]:
    names = [name for each in command.arguments for name in each.names if name.startswith("--")]
    return (*names, *(["--config"] if command.config else []), "--json", "--help")


def _values(command: shell.Command) -> tuple[str, ...]:
    """The words that the arguments of a command may be, where there is a list of them."""
    found: list[str] = []
    for each in command.arguments:
        if each.names == ("clients",):
            from gatemini.config.clients.table import INSTALLS

            found += INSTALLS
        elif not each.names[0].startswith("-"):
            found += each.options.get("choices", ())
    return tuple(found)


def completion(*, name: str, as_json: bool) -> None:
    """Print the script of a shell: eval "$(gatemini completion bash)"."""
    script = {"bash": bash, "zsh": zsh, "fish": fish}[name](words_of_commands())
    shell.result({"shell": name, "script": script}, script.rstrip("\n"), as_json=as_json)


def bash(commands: dict[str, Words]) -> str:
    """The script of bash: looks the last words up in a list of cases."""
    return f"""\
# gatemini: eval "$(gatemini completion bash)" in ~/.bashrc
_gatemini() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" at
  case "$previous" in -c|--config|--to|-) COMPREPLY=($(compgen -f -- "$current")); return;; esac
  for ((at = 1; at < COMP_CWORD; at++)); do
    case "${{COMP_WORDS[at]}}" in
      -c|--config) ((at++));;
      -*) ;;
      *) case "$command" in {"|".join(_groups(commands))}|"") command="${{command:+$command }}${{COMP_WORDS[at]}}";; esac;;
    esac
  done
  local words=""
  case "$command" in
    "") words="{" ".join((*_firsts(commands), *_GLOBAL))}";;
{_bash_cases(commands)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _gatemini gatemini
"""


def _bash_cases(commands: dict[str, Words]) -> str:
    return "\n".join(
        f'    "{name}") words="{" ".join((*words.values, *words.options))}";;'
        for name, words in commands.items()
    )


def zsh(commands: dict[str, Words]) -> str:
    """The script of zsh: that of bash by zsh's own layer for those."""
    return f"""\
# gatemini: eval "$(gatemini completion zsh)" in ~/.zshrc, after compinit
autoload -U +X bashcompinit && bashcompinit
{bash(commands).partition(chr(10))[2]}"""


def fish(commands: dict[str, Words]) -> str:
    """The script of fish: one line a word."""
    lines = ["# gatemini: gatemini completion fish > ~/.config/fish/completions/gatemini.fish"]
    for name in _firsts(commands):
        about = commands[name].about.replace("'", "")
        lines.append(f"complete -c gatemini -f -n __fish_use_subcommand -a {name} -d '{about}'")
    lines += [
        f"complete -c gatemini -n __fish_use_subcommand -l {option.removeprefix('--')}" for option in _GLOBAL
    ]
    for name, words in commands.items():
        condition = " ; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        if words.values:
            lines.append(f"complete -c gatemini -f -n '{condition}' -a '{' '.join(words.values)}'")
        lines += [f"complete -c gatemini -n '{condition}' -l {o.removeprefix('--')}" for o in words.options]
    return "\n".join(lines) + "\n"


def _firsts(commands: dict[str, Words]) -> list[str]:
    return [name for name in commands if " " not in name]


def _groups(commands: dict[str, Words]) -> list[str]:
    """Commands that have commands of their own."""
    return list(dict.fromkeys(name.partition(" ")[0] for name in commands if " " in name))


COMMANDS = (
    shell.Command(
        "completion", completion, [shell.argument("name", choices=SHELLS, metavar="SHELL")], config=""
    ),
)
