"""How a stage moves a region on, as lines of Python; the new leaf takes the name of the old one."""

from tests.fuzz_modules.recipe import Region
from tests.fuzz_modules.values import HISTORIES, is_mutating, start, stored


def update(name: str, region: Region, value: str) -> list[str]:
    """Return the lines that give a region its new value out of `value`, of shape [rows, 4]."""
    if region.kind == "int":
        return [f"{name} = {name} + 1"]
    if region.kind in HISTORIES:
        return _ring(name, region, value) if region.kind == "ring" else _history(name, region, value)
    lines = [f"if {name} is None:", f"    {name} = {start(region)}"] if region.kind == "absent" else []
    return lines + _row(name, region, value)


def _new_rows(region: Region, value: str) -> str:
    """Return as many rows as the region's clock has ticks."""
    rows = f"{value}[::2]" if region.rate == 0 else f"{value}.repeat_interleave({region.rate}, 0)"
    return stored(value if region.rate == 1 else rows, region.dtype)


def _history(name: str, region: Region, value: str) -> list[str]:
    new = _new_rows(region, value)
    full = f"torch.cat([{name}, {new}.t()], 1)" if region.last else f"torch.cat([{name}, {new}])"
    if region.kind != "grow":
        full += f"[:, -{region.cap} :]" if region.last else f"[-{region.cap} :]"
    return [f"{name} = {full}" + (".contiguous()" if region.is_own else "")]


def _ring(name: str, region: Region, value: str) -> list[str]:
    """Write at a position that wraps; of more rows than the ring has, the last."""
    dim, rows = (1, f"{name}_new.t()") if region.last else (0, f"{name}_new")
    return [
        f"{name}_new = {_new_rows(region, value)}",
        f"{name}_at = ({name}_pos + torch.arange({name}_new.shape[0])) % {region.cap}",
        f"{name}.index_copy_({dim}, {name}_at[-{region.cap} :], {rows.replace('_new', f'_new[-{region.cap} :]')})",
        f"{name}_pos.add_({name}_new.shape[0])",
    ]


def _row(name: str, region: Region, value: str) -> list[str]:
    is_bool = region.dtype == "bool"
    total, last = stored(f"{value}.sum(0)", region.dtype), stored(f"{value}[-1]", region.dtype)
    other = f"{name}_b"
    second = {"tied": f"{other} = {name}", "overlap": f"{other} = {name}[1:3]"}.get(region.kind)
    if is_mutating(region):
        whole = f"{name}.logical_xor_({total})" if is_bool else f"{name}.add_({total})"
        target = other if region.kind == "overlap" else f"{name}[1:3]"
        return [f"{target}[:] = {last}[:2]" if region.update == "partly" else whole]
    new = f"{name} ^ {total}" if is_bool else f"{name} + {total}"
    op = "logical_xor" if is_bool else "add"
    lines = {
        "new": [f"{name} = {new}"],
        "view": [f"{name} = {last}"],
        "keep": [],
        "expand": [f"{name} = {stored(f'{value}[0, 0]', region.dtype)}.expand(4)"],
        "accumulate": [
            f"{name}_sum = torch.empty_like({name})",
            f"torch.{op}({name}, {total}, out={name}_sum)",
            f"{name} = {name}_sum",
        ],
    }[region.update]
    if region.kind == "tied" and region.update == "expand":
        return [f"{other} = {name}", *lines]  # the two part, and trade places
    return [*lines, second] if second and region.update != "keep" else lines
