"""What an import refuses: archives made to write elsewhere, to fill the disk, to mislead, or just damaged."""

from __future__ import annotations

import copy
import io
import json
import random
import resource
import stat
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sharing_archives import craft, listed, manifest, members

from aeg.config.load import to_plain
from aeg.config.schema import ExperimentConfig
from aeg.errors import DataError
from aeg.index.layout import making, publish, write_manifest
from aeg.sharing import export_index, import_index

ATOMS = "generations/first/atoms.parquet"


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """The archive of a folder laid out as an index: an import does not look into its tables."""
    folder = tmp_path_factory.mktemp("good") / "index"
    folder.mkdir()
    with making(folder, "first") as generation:
        pq.write_table(pa.table({"id": ["0"], "text": ["Ann met Bix."]}), generation / "atoms.parquet")
        (generation / "extraction.jsonl").write_text('{"passage_id": "a"}\n')
        write_manifest(generation, {"counts": {}})
    publish(folder, "first", {"config": to_plain(ExperimentConfig()), "counts": {}})
    file = folder.parent / "good.zip"
    export_index(folder, file)
    return file


@pytest.fixture
def place(tmp_path) -> Iterator[Path]:
    """A folder to import into; the test fails if anything but `archive` and `index` is in it or beside it after."""
    folder = tmp_path / "place"
    folder.mkdir()
    yield folder
    assert {path.name for path in folder.iterdir()} <= {"archive"}
    assert {path.name for path in tmp_path.iterdir()} == {"place"}


def refused(archive: Path, cause: str) -> None:
    with pytest.raises(DataError, match=cause) as told:
        import_index(archive, archive.parent / "index")
    assert str(archive) in str(told.value) or "index" in str(told.value)
    assert not (archive.parent / "index").exists()


def test_the_archives_of_these_tests_are_imported_where_nothing_is_wrong(good, tmp_path):
    import_index(craft(tmp_path / "archive", manifest(good), members(good)), tmp_path / "index")
    assert (tmp_path / "index" / ATOMS).is_file()


PATHS = {
    "/etc/aeg.json": "is absolute",
    "../outside.json": r"leads out of its folder \('\.\.'\)",
    "generations/../../outside.json": "leads out of its folder",
    "generations/first/..": "leads out of its folder",
    "generations\\outside.json": "backslash",
    "..\\outside.json": "backslash",
    "C:/outside.json": "drive letter",
    "c:outside.json": "drive letter",
    "generations//outside.json": "empty part",
    "./outside.json": "empty part or one that is",
    "generations/a\nb.json": "forbid",
    "generations/con.json": "Windows reserves",
    "generations/NUL": "Windows reserves",
    "generations/a./b.json": "ends with a dot or a space",
    "generations/Zu\u0308rich.json": "composed form",
    "x" * 256 + ".json": "overlong",
    "/".join(["y" * 200] * 6) + ".json": "overlong",
    "generations/first/plugin.py": "no data file of an index",
    "generations/first/weights.pkl": "no data file of an index",
    "INDEX.json": "differs from 'index.json' only in case",
    "Generations/first/x.json": "differ only in case",
    "index.json/x.json": "is a file, and the folder of",
}


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_a_path_that_is_unsafe_or_not_portable(good, place, path):
    refused(craft(place / "archive", manifest(good), {**members(good), path: b"{}"}), PATHS[path])


@pytest.mark.parametrize("path", ["/etc/aeg.json", "../outside.json", "C:/outside.json"])
def test_an_unsafe_path_in_the_manifest_alone(good, place, path):
    told = {**manifest(good), "members": listed({**members(good), path: b"{}"})}
    refused(craft(place / "archive", told, members(good), lists=False), r"archive\.json: the path")


def test_a_zero_byte_in_a_name(good, place):
    archive = craft(place / "archive", manifest(good), {**members(good), "generations/xx.json": b"{}"})
    archive.write_bytes(archive.read_bytes().replace(b"generations/xx.json", b"generations/x\0.json"))
    refused(archive, "zero byte in its name|damaged")


KINDS = {
    stat.S_IFLNK: "is a symbolic link",
    stat.S_IFBLK: "is a block device",
    stat.S_IFCHR: "is a character device",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFDIR: "is a folder",
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_links_and_devices(good, place, kind):
    def special(info: ZipInfo) -> None:
        if info.filename == ATOMS:
            info.external_attr = (kind | 0o777) << 16

    refused(
        craft(place / "archive", manifest(good), {**members(good), ATOMS: b"/etc/passwd"}, entry=special), KINDS[kind]
    )


def test_a_hard_link_in_an_extra_field(good, place):
    def linked(info: ZipInfo) -> None:
        if info.filename == ATOMS:
            info.extra = (0x0001).to_bytes(2, "little") + b"\0\0" + (0x000D).to_bytes(2, "little") + b"\4\0" + b"/etc"

    refused(craft(place / "archive", manifest(good), members(good), entry=linked), "link or a device")


def test_a_tar_file_with_a_hard_link_is_no_archive(good, place):
    with tarfile.open(place / "archive", "w") as tar:
        info = tarfile.TarInfo("index.json")
        info.type, info.linkname = tarfile.LNKTYPE, "/etc/passwd"
        tar.addfile(info, io.BytesIO())
    refused(place / "archive", "not an archive")


def test_a_folder_as_a_member(good, place):
    refused(craft(place / "archive", manifest(good), {**members(good), "generations/": b""}), "is a folder")


def test_a_wrong_checksum(good, place):
    content = members(good)
    told = {**manifest(good), "members": listed(content)}
    content[ATOMS] = content[ATOMS][:-1] + bytes([content[ATOMS][-1] ^ 1])
    refused(craft(place / "archive", told, content, lists=False), f"{ATOMS}.* SHA-256 .* its manifest says")


def test_a_size_that_is_not_the_manifest_s(good, place):
    told = {**manifest(good), "members": listed(members(good))}
    longer = {**members(good), ATOMS: members(good)[ATOMS] + b"0"}
    refused(craft(place / "archive", told, longer, lists=False), "bytes, its manifest says")


def test_a_bomb_of_zeros(good, place):
    zeros = {**members(good), "generations/first/zeros.json": bytes(64 << 20)}
    archive = craft(
        place / "archive", manifest(good), zeros, compression={"generations/first/zeros.json": ZIP_DEFLATED}
    )
    assert archive.stat().st_size < 200_000
    refused(archive, "zeros.json' is compressed")


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_other_compressions(good, place, method):
    refused(craft(place / "archive", manifest(good), members(good), compression={ATOMS: method}), "is compressed")


def test_a_bomb_of_members_that_share_their_bytes(good, place):
    content = {**members(good), "generations/first/m0.json": bytes(1 << 20)}
    names = [f"generations/first/m{number}.json" for number in range(1, 500)]
    told = {**manifest(good), "members": listed({**content, **dict.fromkeys(names, bytes(1 << 20))})}
    archive = craft(place / "archive", told, content, lists=False)
    with ZipFile(archive, "a") as zipped:
        for name in names:
            shared = copy.copy(zipped.getinfo("generations/first/m0.json"))
            shared.filename = name
            zipped.filelist.append(shared)
        zipped._didModify = True
    assert len(ZipFile(archive).namelist()) > 500
    refused(archive, "claim 52[0-9,]+ bytes, and the archive has")


def test_a_declared_size_that_the_archive_does_not_have(good, place):
    told = {**manifest(good), "members": listed(members(good))}
    for member in told["members"]:
        member["size"] = 1 << 40 if member["path"] == ATOMS else member["size"]
    archive = craft(place / "archive", told, members(good), lists=False)
    with ZipFile(archive, "a") as zipped:
        info = zipped.getinfo(ATOMS)
        info.file_size = info.compress_size = 1 << 40
        zipped._didModify = True
    refused(archive, "claim 1,099,5[0-9,]+ bytes, and the archive has")


def test_a_missing_an_extra_and_a_duplicate_member(good, place):
    told = {**manifest(good), "members": listed(members(good))}
    fewer = {path: data for path, data in members(good).items() if path != ATOMS}
    refused(craft(place / "archive", told, fewer, lists=False), f"lacks '{ATOMS}', which its manifest lists")
    more = {**members(good), "generations/first/more.json": b"{}"}
    refused(craft(place / "archive", told, more, lists=False), "holds 'generations/first/more.json'")
    archive = craft(place / "archive", told, members(good), lists=False)
    with ZipFile(archive, "a") as zipped, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        zipped.writestr(ATOMS, b"other")
    refused(archive, "is there twice")


def test_a_manifest_that_fits_but_lacks_a_file_of_the_index(good, place):
    fewer = {path: data for path, data in members(good).items() if path != "index.json"}
    refused(craft(place / "archive", manifest(good), fewer), "holds no index.json")
    other = {path.replace("first", "second"): data for path, data in members(good).items()}
    refused(craft(place / "archive", manifest(good), other), "names no index|does not fit")


def test_an_encrypted_member(good, place):
    archive = craft(place / "archive", manifest(good), members(good))
    raw = bytearray(archive.read_bytes())
    at = raw.rindex(b"PK\x01\x02", 0, raw.rindex(ATOMS.encode()))
    raw[at + 8] |= 1
    archive.write_bytes(raw)
    refused(archive, "is encrypted")


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9, 0.999])
def test_a_truncated_archive(good, place, kept):
    raw = good.read_bytes()
    (place / "archive").write_bytes(raw[: int(kept * len(raw))])
    refused(place / "archive", "cut off or damaged")


@pytest.mark.parametrize("content", [b"", b"PK", b"It rained again.", b"\x1f\x8b\x08", bytes(1000)])
def test_what_is_no_archive(place, content):
    (place / "archive").write_bytes(content)
    refused(place / "archive", "not an archive")


def test_a_zip_file_of_something_else(place):
    with ZipFile(place / "archive", "w") as zipped:
        zipped.writestr("notes.json", "{}")
    refused(place / "archive", r"has no archive\.json")


def test_there_is_no_such_file_or_it_is_a_folder(place):
    for path, cause in ((place / "none.zip", "No such file"), (place, "Is a directory")):
        with pytest.raises(DataError, match=cause):
            import_index(path, place / "index")


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("format", 2, "got format 2, expected 1; install a newer aeg"),
        ("format", 0, "got format 0, expected 1; have it exported anew"),
        ("format", True, "got format True, expected 1"),
        ("kind", "something", "got kind 'something'"),
        ("index_format", 99, "got an index of format 99.*install a newer aeg"),
        ("index_format", 1, "got an index of format 1.*exported anew"),
        ("index_format", "2", "expected an integer"),
        ("members", {}, "expected a list"),
        ("members", [{"path": "index.json", "size": -1, "sha256": "0" * 64}], "got size -1"),
        ("members", [{"path": "index.json", "size": 1, "sha256": "0"}], "64 digits"),
        ("libraries", {"torch": 2}, "expected a string"),
        ("config", None, "expected an object"),
        ("text", False, "whether there are texts"),
    ],
)
def test_a_manifest_of_another_format_or_shape(good, place, key, value, cause):
    told = {**manifest(good), "members": listed(members(good)), key: value}
    refused(craft(place / "archive", told, members(good), lists=False), cause)


@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"format": ' + b"9" * 5000 + b"}"])
def test_a_manifest_that_is_no_json_object(place, raw):
    with ZipFile(place / "archive", "w") as zipped:
        zipped.writestr("archive.json", raw)
    refused(place / "archive", r"archive\.json")


POINTERS = {
    "plugins": ({"config": {"plugins": ["generations/first/x.json"]}}, "sets 'plugins'"),
    "endpoint": ({"config": {"llm": {"reader": {"name": "openai", "base_url": "http://x/v1"}}}}, "sets 'llm.reader'"),
    "prompts": ({"config": {"llm": {"prompts": {"sieve": "/etc/passwd"}}}}, "sets 'llm.prompts"),
    "absolute": ({"config": {"encoder": {"name": "hf", "model": "/etc"}}}, "sets 'encoder.model'"),
    "no config": ({"config": None}, "holds no config"),
    "config of a list": ({"config": {"llm": []}}, "holds no config"),
    "elsewhere": ({"generation": "../../../../etc"}, "names no index|does not fit"),
    "absolute generation": ({"generation": "/etc"}, "names no index|does not fit"),
    "no generation": ({"generation": None}, "names no index|does not fit"),
    "format": ({"format": 1}, "names no index"),
}


@pytest.mark.parametrize("case", POINTERS)
def test_a_pointer_that_would_make_a_query_do_more_than_read_the_index(good, place, case):
    changes, cause = POINTERS[case]
    pointer = {**json.loads(members(good)["index.json"]), **changes}
    refused(
        craft(place / "archive", manifest(good), {**members(good), "index.json": json.dumps(pointer).encode()}), cause
    )


@pytest.mark.parametrize("raw", [b"{", b"[]", b"\xff\xfe", b"{}", b"[" * 100_000])
def test_a_pointer_that_is_none(good, place, raw):
    refused(craft(place / "archive", manifest(good), {**members(good), "index.json": raw}), "names no index")


def test_a_target_that_exists(good, tmp_path):
    for make in (lambda path: path.mkdir(), lambda path: path.write_text("mine"), lambda path: path.symlink_to("none")):
        target = tmp_path / "target"
        make(target)
        with pytest.raises(DataError, match="exists already"):
            import_index(good, target)
        assert [path.name for path in tmp_path.iterdir()] == ["target"]
        target.rmdir() if target.is_dir() else target.unlink()


def test_a_place_that_cannot_be_written_to(good, tmp_path):
    (tmp_path / "file").write_text("")
    for target, cause in (
        (tmp_path / "file" / "index", "Not a directory"),
        (tmp_path / "no" / "index", "No such file"),
    ):
        with pytest.raises(DataError, match=f"cannot be made .{cause}"):
            import_index(good, target)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def _full_disk() -> Iterator[None]:
    """No file can grow over 100 bytes: what writes more gets an error from the system, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_full_disk")
def test_a_full_disk(good, place):
    with pytest.raises(DataError, match=r"cannot be written \(File too large"):
        import_index(good, place / "index")


def test_damage_anywhere_is_refused_or_harmless(good, place):
    """Bytes changed and cut at random: refused with a cause, or all that is imported is what was exported."""
    raw, chance, through = good.read_bytes(), random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(raw)
        for _ in range(chance.choice((1, 1, 4))):
            damaged[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.1:
            del damaged[chance.randrange(len(raw)) :]
        (place / "archive").write_bytes(damaged)
        try:
            told = import_index(place / "archive", place / "index")
        except DataError:
            continue
        through += 1
        for path, data in members(good).items():
            assert (place / "index" / path).read_bytes() == data
        assert {member.path for member in told.members} == set(members(good))
        for path in sorted((place / "index").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (place / "index").rmdir()
    assert through < 150
