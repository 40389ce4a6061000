"""Keys and AdCerts: files as commands make them, what is refused, and that no secret is shown."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
import rhumb
from conftest import PATIENCE_S, Network


def test_files_are_those_of_the_commands(network: Network, tmp_path: Path) -> None:
    name = network.run("keygen", "--out", str(tmp_path / "theirs.key"))["name"]
    identity = rhumb.Identity.load(tmp_path / "theirs.key")
    assert (identity.name, identity.role) == (name, "node")
    assert repr(identity) == f"<rhumb.Identity {name}>"

    owner = rhumb.Identity.generate("capsule")
    owner.save(tmp_path / "ours.key")
    assert stat.S_IMODE(os.stat(tmp_path / "ours.key").st_mode) == 0o600
    command = ("certify", "--key", str(tmp_path / "ours.key"), "--server", name)
    network.run(*command, "--out", str(tmp_path / "ours.adcert"))
    ad_cert = rhumb.AdCert.load(tmp_path / "ours.adcert")
    assert (ad_cert.owner, ad_cert.server) == (owner.name, name)

    rhumb.AdCert.sign(owner, name, 60).save(tmp_path / "second.adcert")
    said = network.run("inspect", str(tmp_path / "second.adcert"))
    assert owner.name in str(said) and name in str(said)


def test_a_sealed_key_opens_by_its_passphrase_alone(tmp_path: Path) -> None:
    path = tmp_path / "sealed.key"
    identity = rhumb.Identity.generate()
    identity.save(path, "open sesame")
    assert rhumb.Identity.load(path, "open sesame").name == identity.name
    for passphrase in (None, "", "guess"):
        with pytest.raises(rhumb.KeyFileError, match="passphrase") as refused:
            rhumb.Identity.load(path, passphrase)
        assert "guess" not in str(refused.value)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    with pytest.raises(rhumb.KeyFileError, match="No such file|not found"):
        rhumb.Identity.load(path)
    identity = rhumb.Identity.generate()
    identity.save(path)
    with pytest.raises(rhumb.KeyFileError, match="exists"):
        identity.save(path)
    path.chmod(0o644)
    with pytest.raises(rhumb.KeyFileError, match="chmod 600"):
        rhumb.Identity.load(path)
    path.chmod(0o600)
    (tmp_path / "a.membership").write_text("nonsense")
    with pytest.raises(rhumb.KeyFileError, match="it lies beside the key"):
        rhumb.Identity.load(path)
    path.write_text("nonsense")
    with pytest.raises(rhumb.KeyFileError, match="damaged"):
        rhumb.Identity.load(path)
    with pytest.raises(rhumb.KeyFileError, match="no AdCert"):
        rhumb.AdCert.load(path)


def test_arguments_of_no_sense_are_refused(network: Network) -> None:
    owner = rhumb.Identity.generate("capsule")
    with pytest.raises(rhumb.InvalidError, match="is no role"):
        rhumb.Identity.generate("king")
    with pytest.raises(rhumb.InvalidError, match="lasts from 1 s"):
        rhumb.AdCert.sign(owner, "a" * 52, 10**9)
    with pytest.raises(ValueError, match="is not a name"):
        rhumb.AdCert.sign(owner, "somebody", 60)

    async def run() -> None:
        for options, words in (
            ({"router": "here"}, "is not a router"),
            ({"router": "x@127.0.0.1:1"}, "is not a name"),
            ({"router": network.router, "only": ["a" * 52]}, "leave it out"),
            ({"router": network.router, "timeout": -1.0}, "is no time to wait"),
            ({"router": network.router, "timeout": float("nan")}, "is no time to wait"),
            ({"router": network.router, "local_address": "here"}, "no address of this host"),
        ):
            with pytest.raises(rhumb.InvalidError, match=words):
                await rhumb.join(**options)
        with pytest.raises(rhumb.KeyFileError, match="names a capsule, not a node"):
            await rhumb.join(router=network.router, key=owner)
        async with rhumb.join(router=network.router) as node:
            for allow in ("everyone", ["everybody", node.name], [""]):
                with pytest.raises(rhumb.InvalidError):
                    node.bind(allow=allow)
            with pytest.raises(OverflowError):
                node.bind(65536, allow=[])

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_a_name_is_kept_by_its_key_and_its_passphrase_may_be_in_the_environment(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = rhumb.Identity.generate()
    identity.save(tmp_path / "me.key", "open sesame")

    async def run() -> str:
        async with rhumb.join(router=network.router, key=tmp_path / "me.key") as node:
            return node.name

    with pytest.raises(rhumb.KeyFileError, match="sealed"):
        asyncio.run(run())
    monkeypatch.setenv("RHUMB_PASSPHRASE", "open sesame")
    assert asyncio.run(run()) == identity.name


def test_a_name_is_served_moved_and_closed(network: Network) -> None:
    owner = rhumb.Identity.generate("capsule")

    async def whose(stream: rhumb.Stream) -> None:
        stream.write(stream.local.encode())

    async def run() -> None:
        async with rhumb.join(router=network.router) as server, rhumb.join(
            router=network.router
        ) as client:
            with pytest.raises(rhumb.KeyFileError, match="is for the server"):
                await server.serve_name(rhumb.AdCert.sign(owner, client.name, 60))
            async with server.serve(7, whose, allow=[client.name]):
                service = await server.serve_name(rhumb.AdCert.sign(owner, server.name, 60))
                assert service.name == owner.name
                async with await client.connect(owner.name, 7) as stream:
                    assert await stream.read() == owner.name.encode()
                await service.renew(rhumb.AdCert.sign(owner, server.name, 600))
                service.close()
                with pytest.raises(rhumb.Error, match="served no longer"):
                    await service.renew(rhumb.AdCert.sign(owner, server.name, 600))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
