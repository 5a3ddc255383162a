"""Compose, build and name configurations. Only ``build`` instantiates classes."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semimedref.address import check_address
from semimedref.errors import UserError
from semimedref.switches import check_switches
from semimedref.text.vocabulary import names_file

if TYPE_CHECKING:
    from hydra.plugins.config_source import ConfigResult, ConfigSource
    from omegaconf import DictConfig

# What decides a result. Networks, encoders, augmentation, alignment and pseudo-labels are inside
# ``method`` as far as it uses them, so two rows that differ only in an unused part are one run.
SIGNED = ("dataset", "ratio", "seed", "method", "trainer")
# At any depth, what does not decide a result: keys of the machine, and further evaluations of it.
MACHINE_KEYS = frozenset({"root", "axes"})
FILE_KEYS = frozenset({"weights", "tokenizer", "trunk", "candidates"})  # by name and content
TABLE_KEYS = frozenset({"annotation", "vocabulary", "brain_patients"})  # by content alone
TABLES = (".csv", ".json", ".tsv", ".xlsx")
TRUSTED = ("semimedref",)
_PHANTOM = "semimedref.dataset.phantom."  # nobody's radiographs


def config_dir() -> Path:
    """The folder of the shipped configuration: inside the wheel, or beside src in a checkout."""
    inside = Path(__file__).parent / "conf"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "conf"


def search_folders(overrides: Sequence[str]) -> list[Path]:
    """The further configuration folders that ``--config-dir`` has become in the overrides."""
    found = [o.partition("=")[2] for o in overrides if o.startswith("hydra.searchpath=")]
    parts = [part for text in found for part in text.strip("[]").split(",")]
    return [Path(part.strip().removeprefix("file://")) for part in parts if part.strip()]


def compose(overrides: list[str], *, config_dirs: list[str] | None = None) -> DictConfig:
    """The configuration for some Hydra overrides, as ``semimedref train`` would see it."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    read_files_once()
    if config_dirs:
        paths = ",".join(f"file://{Path(d).absolute()}" for d in config_dirs)
        overrides = [*overrides, f"hydra.searchpath=[{paths}]"]
    if GlobalHydra.instance().is_initialized():
        return hydra_compose(config_name="config", overrides=overrides, return_hydra_config=True)
    with initialize_config_dir(str(config_dir())):
        return hydra_compose(config_name="config", overrides=overrides, return_hydra_config=True)


def build(cfg: DictConfig, group: str) -> Any:  # noqa: ANN401 - whatever the option's class is
    """Instantiate one group of a configuration; classes must be ours or of a trusted package."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    packages = [*TRUSTED, *cfg.trusted_packages]
    trusted = [f"{name}.*" for name in packages]
    check_switches(OmegaConf.to_container(cfg[group], resolve=True), group, trusted=packages)
    try:
        return instantiate(cfg[group], _execution_whitelist_=trusted, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        while cause is not None:
            if isinstance(cause, UserError):
                raise cause from None
            cause = cause.__cause__
        detail = " ".join(f"{error} {_root_cause(error)}".split())
        hint = " (a class of your own package needs trusted_packages=[your_package])"
        if cfg.trusted_packages:
            unknown = "ModuleNotFoundError" in detail
            hint = " (put the folder that holds the package on PYTHONPATH)" if unknown else ""
        raise UserError(f"{group}: {detail}{hint}") from error


def _root_cause(error: BaseException) -> str:
    """What was wrong first, if it is not the error itself."""
    cause: BaseException | None = error.__cause__ or error.__context__
    deepest = None
    while cause is not None:
        deepest, cause = cause, cause.__cause__ or cause.__context__
    return "" if deepest is None else f"[{type(deepest).__name__}: {deepest}]"


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The task's configuration as plain values."""
    from omegaconf import OmegaConf

    values = {
        str(key): OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
        for key, node in ((key, cfg[key]) for key in cfg if key != "hydra")
    }
    check_address((values.get("tracking") or {}).get("uri"))  # before anything is written
    return values


def signed(plain: dict[str, Any]) -> dict[str, Any]:
    """The part of a resolved configuration that decides the result."""
    history = _history()
    node = _strip({key: plain[key] for key in SIGNED})
    if plain.get("needs"):  # what it starts from decides, too
        node["needs"] = _strip(plain["needs"])
    node["image_side"] = plain["scale"]["image_side"]  # of the images, whatever the network says
    if history["training"] > 1:
        node["training"] = history["training"]
    for path, old in history["added_keys"].items():
        for part in (node, *node.get("needs", {}).values()):
            _drop_if(part, path.split("."), old)
    versions = {t: history["versions"][t] for t in _targets(node) if t in history["versions"]}
    return node | ({"versions": versions} if versions else {})


def signature(plain: dict[str, Any]) -> str:
    """First 12 hex digits of the sha1 of what decides the result."""
    text = json.dumps(signed(plain), sort_keys=True, separators=(",", ":"))
    return hashlib.sha1(text.encode()).hexdigest()[:12]


def with_added_keys(plain: dict[str, Any]) -> dict[str, Any]:
    """An older run's configuration with the keys that came later, at what was done before them."""
    import copy

    plain = copy.deepcopy(plain)
    for path, old in _history()["added_keys"].items():
        *groups, key = path.split(".")
        node: Any = plain
        for group in groups:
            node = node.get(group) if isinstance(node, dict) else None
        if isinstance(node, dict) and key not in node and _takes(node, key):
            node[key] = old
    return plain


def _takes(node: dict[str, Any], key: str) -> bool:
    """Whether the class of an option has a parameter of that name."""
    import inspect

    from hydra.utils import get_object

    if "_target_" not in node:
        return bool(node)  # a group without a class; an empty one was not chosen
    return key in inspect.signature(get_object(node["_target_"])).parameters


def run_name(plain: dict[str, Any], *, signed_as: str | None = None) -> str:
    """A folder name that a person can read, ending in the signature (which may be known)."""
    return "-".join([*labels(plain).values(), signed_as or signature(plain)])


def labels(plain: dict[str, Any]) -> dict[str, str]:
    """The paper's words for the components of a run."""
    method, fraction = plain["method"], plain["ratio"]["fraction"]
    if not isinstance(fraction, int | float):
        raise UserError(f"ratio.fraction={fraction}: expected a number, 0 < fraction <= 1")
    return {
        "dataset": plain["dataset"]["name"],
        "ratio": f"{100 * fraction:g}pct",
        "model": method["model"]["_target_"].split(".")[-2],
        "method": method["_target_"].split(".")[-2],
        "seed": f"s{plain['seed']['value']}",
    }


def is_synthetic(plain: Mapping[str, Any]) -> bool:
    """Whether the images are nobody's: only then may they and their names leave the machine."""
    target = plain["dataset"].get("_target_", "")
    return str(target).startswith(_PHANTOM)


def register_resolvers() -> None:
    """Make ``${run_name:}`` known to OmegaConf."""
    from omegaconf import OmegaConf

    OmegaConf.register_resolver(
        "run_name", lambda *, _root_: run_name(resolved(_root_)), replace=True
    )


def read_files_once() -> None:
    """Let Hydra parse each unchanged configuration file once in a process, not in every cell."""
    from hydra.core.plugins import Plugins
    from hydra.plugins.config_source import ConfigSource

    for source in Plugins.instance().discover(ConfigSource):
        load = source.load_config
        if source.scheme() in ("file", "pkg") and not hasattr(load, "__wrapped__"):
            source.load_config = _reading_once(load)


def _reading_once(load: Callable[[ConfigSource, str], ConfigResult]) -> Callable[..., ConfigResult]:
    """A source's ``load_config`` with a memory: pickles, because Hydra changes what it gets."""
    memory: dict[tuple[Any, ...], bytes] = {}

    @wraps(load)
    def load_config(self: ConfigSource, config_path: str) -> ConfigResult:
        stamp = None
        if self.scheme() == "file":  # a package's files do not change while we run
            path = Path(
                self.path, config_path if config_path.endswith(".yaml") else f"{config_path}.yaml"
            )
            if not path.is_file():
                return load(self, config_path)
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        key = (self.provider, self.path, config_path, stamp)
        if key not in memory:
            memory[key] = pickle.dumps(load(self, config_path))
        return pickle.loads(memory[key])

    return load_config


def _strip(node: Any) -> Any:  # noqa: ANN401 - plain JSON values
    """Without machine keys and nulls; weights by what they are, not by where they lie."""
    if isinstance(node, dict):
        kept = {k: v for k, v in node.items() if k not in MACHINE_KEYS and v is not None}
        return {k: _identity(k, v) if isinstance(v, str) else _strip(v) for k, v in kept.items()}
    if isinstance(node, list):
        return [_strip(v) for v in node]
    return node


def _identity(key: str, value: str) -> str:
    """What stands for a string in a signature: of a file, its content."""
    if key in FILE_KEYS:
        return file_identity(value)
    if key == "vocabulary" and not names_file(value):  # the word lungs, whatever is called so here
        return value
    return table_identity(value) if key in TABLE_KEYS else value


@lru_cache(maxsize=64)
def table_identity(table: str) -> str:
    """The hash of an annotation or a vocabulary, or of all tables in a folder."""
    path = Path(table).expanduser()
    if not path.exists():
        return table  # the data set's own error names the missing file
    inside = (f for f in path.rglob("*") if f.suffix.lower() in TABLES) if path.is_dir() else [path]
    digests = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in inside)
    whole = digests[0] if path.is_file() else hashlib.sha256("".join(digests).encode()).hexdigest()
    return f"sha256:{whole}"


@lru_cache(maxsize=64)
def file_identity(weights: str) -> str:
    """``random``, a hub id, a package with its version, or the hash of the files at a path.

    Of a run folder, only the best weights count.
    """
    kind, _, name = weights.partition(":")
    if weights == "random" or kind == "hub":
        return weights
    if kind == "package":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return f"package:{name}=={version(name.partition('/')[0])}"
        except PackageNotFoundError as error:
            raise UserError(f"weights={weights}: the package is not installed") from error
    path = Path(weights).expanduser()
    path = path / "best.pt" if (path / "best.pt").is_file() else path
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        if not file.is_file():
            return weights  # the encoder's own error names the missing file
        digest.update(file.name.encode())
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def _targets(node: Any) -> list[str]:  # noqa: ANN401 - plain JSON values
    if isinstance(node, list):
        return [t for v in node for t in _targets(v)]
    if not isinstance(node, dict):
        return []
    own = [node["_target_"]] if "_target_" in node else []
    return own + [t for v in node.values() for t in _targets(v)]


def _drop_if(node: dict[str, Any], path: list[str], old: object) -> None:
    for key in path[:-1]:
        node = node.get(key, {})
        if not isinstance(node, dict):
            return
    if path[-1] in node and node[path[-1]] == old:
        del node[path[-1]]


@lru_cache(maxsize=1)
def _history() -> dict[str, Any]:
    import yaml

    return yaml.safe_load((Path(__file__).parent / "signature_history.yaml").read_text())
