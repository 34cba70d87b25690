"""Where plans are read from: files, links to files and bytes; nothing that blocks, and nothing else."""

import os
import socket

import pytest

from cadence_runtime.errors import ErrorList, PlanError, UsageError
from cadence_runtime.format.reader import read_plan
from cadence_runtime.format.writer import write_plan
from tests.format.forge import forged, swapped
from tests.format.plans import example


def read(path):
    return read_plan(path, decompress=None)


def test_a_path_may_be_text_or_a_path_or_a_link(tmp_path):
    write_plan(tmp_path / "toy.plan", example())
    (tmp_path / "link").symlink_to("toy.plan")
    assert read(str(tmp_path / "toy.plan")) == read(tmp_path / "toy.plan") == read(tmp_path / "link") == example()


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, kind in (("pipe", "a pipe"), ("", "a folder")):
            with pytest.raises(UsageError) as caught:
                read(tmp_path / name)
            assert (caught.value.code, caught.value.got) == ("CAD9202", kind)
        with pytest.raises(UsageError, match="CAD9203"):
            read(tmp_path / "socket")
    with pytest.raises(UsageError, match="CAD9202"):
        read("/dev/zero")


def test_a_link_in_a_circle_is_unreadable(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UsageError, match=r"CAD9203.*\n.*\n.*too many levels of symbolic links"):
        read(tmp_path / "a")


def test_a_link_that_leads_nowhere_is_said_to(tmp_path):
    (tmp_path / "latest.plan").symlink_to("gone.plan")
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "latest.plan")
    assert (caught.value.code, caught.value.got) == ("CAD9201", "a link that leads nowhere")


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / "toy.plan"
    path.write_bytes(forged(example(), manifest=swapped(b'"init":0', b'"init":true')))
    with pytest.raises(PlanError) as caught:
        read(path)
    assert caught.value.at == f"{path}, manifest.init"


def test_every_error_of_a_list_names_the_file(tmp_path):
    path = tmp_path / "toy.plan"
    path.write_bytes(forged(example(), manifest=lambda data: data.replace(b'"weights":[', b'"weights":[' + WEIGHT, 1)))
    with pytest.raises(ErrorList) as caught:
        read(path)
    assert len(caught.value.errors) > 1
    assert all(str(path) in (error.at or "") for error in caught.value.errors)


WEIGHT = b'{"blob":9,"dtype":"float32","name":"w","offset":0,"sha256":"' + b"0" * 64 + b'","sizes":[4]},'


def test_nothing_stays_open(tmp_path):
    path = tmp_path / "toy.plan"
    write_plan(path, example())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        read(path)
    path.write_bytes(b"no plan")
    for _ in range(5):
        with pytest.raises(PlanError):
            read(path)
    assert len(os.listdir("/proc/self/fd")) == before
