"""`gatemini config check | schema | show | path`: the configuration, without starting anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatemini.cli import shell
from gatemini.config.documents.find import config_directory
from gatemini.errors import ConfigError
from gatemini.text.shorten import counted

if TYPE_CHECKING:
    from gatemini.config.load import Loaded
    from gatemini.config.model.schema import BackendConfig, Config
    from gatemini.config.problems import Problem


def check(*, config: Path | None, as_json: bool) -> int:
    """Show all findings at once, without starting anything."""
    from gatemini.config.load import load_config

    try:
        loaded = load_config(config, environ=os.environ)
    except ConfigError as error:
        if not (error.details or {}).get("problems"):
            raise  # the file as a whole cannot be read
        return _refused(error, config, as_json)
    if as_json:
        shell.emit(_as_json(loaded))
    else:
        _show_findings(loaded)
    return shell.FAILED if loaded.errors else shell.OK


def _as_json(loaded: Loaded) -> dict[str, Any]:
    return {
        "ok": not loaded.errors,
        "source": str(loaded.source) if loaded.source else None,
        "backends": list(loaded.config.backends),
        "disabled": dict(loaded.disabled),
        "absent_programs": _absent_programs(loaded),
        "problems": [problem.to_json() for problem in loaded.problems],
    }


def _refused(error: ConfigError, config: Path | None, as_json: bool) -> int:
    """Show the findings of a configuration that no gateway starts with, as those of others are shown."""
    from gatemini.config.documents.find import find_config
    from gatemini.config.load import Loaded
    from gatemini.config.model.schema import Config
    from gatemini.config.problems import Problem

    problems = tuple(Problem(**row) for row in (error.details or {})["problems"])
    refused = Loaded(Config(), problems, source=find_config(config, os.environ, config_directory()))
    if as_json:
        shell.emit(_as_json(refused))
        return shell.FAILED
    _show_problems(problems)
    shell.say(f"{refused.source}: no gateway starts with it")
    return shell.FAILED


def _show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        shell.say(f"{problem.severity}: {problem.text()}")


def _show_findings(loaded: Loaded) -> None:
    if loaded.source is None:
        shell.say(
            f"no configuration file at {config_directory() / 'config.yaml'}: the demo backends would be served"
        )
        return
    _show_problems(loaded.problems)
    absent = _absent_programs(loaded)
    for name, reason in absent.items():
        shell.say(f"warning: {loaded.origins[name]}: backends.{name}: {reason}")
    ready = [name for name in loaded.config.backends if name not in absent]
    off = loaded.disabled
    shell.say(
        f"{loaded.source}: {counted(len(ready), 'backend')} ready to start"
        + (f": {', '.join(ready)}" if ready else "")
    )
    if absent:
        shell.say(f"{len(absent)} without their program or module: {', '.join(absent)}")
    if off:
        shell.say(f"{len(off)} disabled: {', '.join(off)}")
    if not loaded.problems and not absent:
        shell.say("no findings")


def _absent_programs(loaded: Loaded) -> dict[str, str]:
    """Backends that cannot start here, since their program or module is not on this machine, each with the reason."""
    from gatemini.config.model.command_template import words_of
    from gatemini.config.session_values import SessionValues, for_session
    from gatemini.errors import BackendStopped
    from gatemini.processes.child_environment import child_environment, find_program

    absent: dict[str, str] = {}
    here = SessionValues(os.getcwd(), os.environ)
    for name, backend in loaded.config.backends.items():
        programs = (
            [backend.command]
            if backend.command
            else [words_of(tool)[0] for tool in backend.cli_tools.values()]
        )
        try:
            own = for_session(backend, here)
            environment = child_environment(own.env, inherit=own.inherit_env)
            for program in programs:
                find_program(program, environment, own.cwd)
        except BackendStopped as error:
            absent[name] = error.text()
        if backend.module and (missing := _missing_module(backend.module.partition(":")[0])):
            absent[name] = f"{missing}: `module` is PACKAGE.MODULE:SERVER, of the Python that runs gatemini"
    return absent


def _missing_module(path: str) -> str:
    """The part of a module's path that is not installed; looked for without importing anything."""
    from importlib.machinery import PathFinder

    folders: Sequence[str] | None = None
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), folders)
        if spec is None:
            return f"there is no module {'.'.join(parts[:end])}"
        if end < len(parts) and spec.submodule_search_locations is None:
            return f"{'.'.join(parts[:end])} is a module and no package"
        folders = [*(spec.submodule_search_locations or ())]
    return ""


def schema(*, config: Path | None, as_json: bool) -> None:
    """The JSON Schema of the configuration file, for editors."""
    from gatemini.config.model.json_schema import config_json_schema

    del config, as_json  # the same for every configuration, and JSON in any case
    shell.emit(config_json_schema())


def show(*, all_keys: bool, config: Path | None, as_json: bool) -> None:
    """What is in force, with variables put in and secrets masked."""
    import yaml

    from gatemini.config.load import load_config

    loaded = load_config(config, environ=os.environ)
    plain = masked(loaded, all_keys=all_keys)
    if as_json:
        shell.emit({"source": str(loaded.source) if loaded.source else None, "config": plain})
        return
    shell.say(f"# {loaded.source or 'no configuration file'}")
    for name, reason in loaded.disabled.items():
        shell.say(f"# {name} is disabled: {reason}")
    shell.say(
        yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100).rstrip("\n") if plain else "{}"
    )


def masked(loaded: Loaded, *, all_keys: bool) -> dict[str, Any]:
    """The configuration as a file has it; values that are or look secret are masked."""
    from gatemini.config.session_values import as_written
    from gatemini.config.variables.redaction import Redactor

    config: Config = loaded.config
    plain = config.model_dump(mode="json", exclude={"backends"}, exclude_defaults=not all_keys, by_alias=True)
    plain["backends"] = {
        name: _backend(backend, all_keys, loaded.secrets) for name, backend in config.backends.items()
    }
    redactor = Redactor(loaded.secrets)
    return {key: as_written(redactor.value(value)) for key, value in plain.items()}


def _backend(backend: BackendConfig, all_keys: bool, secrets: Sequence[tuple[str, str]]) -> dict[str, Any]:
    from gatemini.config.variables.redaction import SecretText, looks_secret

    plain = backend.model_dump(mode="json", exclude={"name", "cli_tools"}, exclude_defaults=not all_keys)
    plain = {"transport": backend.transport, **plain}
    if backend.cli_tools:
        tools = {
            n: t.model_dump(mode="json", exclude_defaults=not all_keys) for n, t in backend.cli_tools.items()
        }
        plain["tools"] = {**plain.get("tools", {}), **tools}
    for place in ("env", "headers"):
        values: dict[str, str] = getattr(backend, place)
        if values:
            plain[place] = {
                k: _mask(k, v, secrets) if isinstance(v, SecretText) or looks_secret(k) else v
                for k, v in values.items()
            }
    return plain


def _mask(key: str, value: str, secrets: Sequence[tuple[str, str]]) -> str:
    """The whole value hidden, under the names of what was put in; what is written out has that of its key."""
    names = list(dict.fromkeys(name for name, secret in secrets if secret and secret in value)) or [key]
    return "".join(f"«secret {name}»" for name in names)


def path(*, config: Path | None, as_json: bool) -> int:
    """Where the configuration is; fails where there is none."""
    from gatemini.config.documents.find import CONFIG_FILE, find_config

    found = find_config(config, os.environ, config_directory())
    place = Path(os.path.abspath(found or config_directory() / CONFIG_FILE))
    shell.result({"path": str(place), "exists": place.exists()}, str(place), as_json=as_json)
    if not place.exists() and not as_json:
        shell.note("there is no such file: `gatemini init` writes one")
    return shell.OK if place.exists() else shell.FAILED


COMMANDS = (
    shell.Command("check", check),
    shell.Command("schema", schema, config="place"),
    shell.Command("path", path, config="place"),
    shell.Command(
        "show",
        show,
        [
            shell.argument(
                "--all", dest="all_keys", action="store_true", help="with the keys that have their default"
            )
        ],
    ),
)
