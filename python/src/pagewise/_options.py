"""Options, as docs/reference/options.md has them: the core checks, this explains."""

from __future__ import annotations

from typing import Union

from ._errors import OptionError

Option = Union[str, int, bool]

POLICIES = ("auto", "share", "huge")
FROM_THE_START = ("direct", "ksm", "ksm-aggressive", "general")
FORMS = {
    "threshold": 'a size from 8K to 1G, such as "64K" or 65536',
    "share": '"off", "lazy" or "always"',
    "zero": '"off", "backoff" or "always"',
    "collect": '"auto" or "burst"',
    "pool": "True or False",
    "slack": "percent, from 0 to 100",
    "decay": "whole seconds, from 0 to 3600",
    "brief": "whole milliseconds, from 0 to 3600000",
    "relieve": '"off" or "short"',
    "early": "True or False",
    "huge": '"off", "on" or "always"',
    "huge-min": 'a size from 8K on, such as "1M"',
    "huge-max": 'a size from 8K on, such as "4G"',
    "pages": '"transparent", "ordinary", "hugetlb" or "hugetlb-1g"',
    "lock": "True or False",
    "mmapcopy": "True or False",
    "freeze": '"off", "auto" or "check"',
    "modules": '"known" or "all"',
    "verbose": "True or False",
    "keeper": "True or False",
    "seccomp": '"plain", "ignore" or a whole number from 0 to 1000',
}


def check_policy(policy: str) -> str:
    """Return the policy, if it can be switched on in a running interpreter."""
    if policy == "plain":
        raise OptionError('policy "plain" is Pagewise switched off. Type: pagewise.off()')
    if policy in FROM_THE_START:
        raise OptionError(
            f'policy "{policy}" works from a program\'s start only. Type, in a shell:\n'
            f"  pagewise run --policy {policy} -- python script.py"
        )
    if policy not in POLICIES:
        raise OptionError(f"there is no policy {policy!r}. Policies are {', '.join(POLICIES)}.")
    return policy


def words(options: dict[str, Option]) -> dict[str, str]:
    """{"huge_min": 8192, "pool": False} as {"huge-min": "8192", "pool": "off"}."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    for name in named:
        if name not in FORMS:
            raise OptionError(f"Pagewise has no option {name!r}. There are: {', '.join(sorted(FORMS))}.")
    return {name: _word(name, value) for name, value in named.items()}


def _word(name: str, value: Option) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, (str, int)) or set(str(value)) & set(",="):
        raise OptionError(f"`{name}` is {FORMS[name]}, not {value!r}.")
    return str(value)


def explain(reason: str) -> str:
    """Say what to type where the core has given `reason`, which names an item that it did not take as name=value."""
    name = reason.rpartition(": ")[2].partition("=")[0]
    if "not understood" in reason and name in FORMS:
        return f"`{name}` is {FORMS[name]}."
    return "`pagewise doctor`, in a shell, says what this machine allows."
