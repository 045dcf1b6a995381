"""Links over TLS: both certificates are verified, and each that may not be used is said in one sentence."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec import structs
from structlog.testing import capture_logs

from errors import Refused
from installation.certificates import CA_CERT, CA_KEY, Certificates, Wanted
from installation.parts import Kind, Part
from local.service import probe_ready
from ops.scrape import Scraper
from runtime import logs
from runtime.http import HttpServer
from runtime.tls import Tls, files_of, session
from runtime.tls_errors import sentence_of
from tests.clock import ManualClock
from tests.integration.wire.test_handshake import Echo, kept, up
from tests.integration.wire.test_link import until
from tests.link_keys import GATEWAY_KEY, OPERATOR_KEY, accepts, setnode_key
from wire.ask import ask
from wire.handshake import PROOF_HEADER, Doorkeeper, LinkRefused
from wire.keys import GATEWAY, OPERATOR, accepted_keys
from wire.link import Link
from wire.load import Load
from wire.messages import Op
from wire.server import add_link, admit

SERVER = Wanted("set-1-a", "setnode/set-1", ("127.0.0.1",))
CALLER = Wanted("gateway", "gateway")
COMMANDS = Wanted("operator", "operator")
PAST, FUTURE = timedelta(days=-400), timedelta(days=400)


@pytest.fixture
def own(tmp_path: Path) -> Certificates:
    """The certificates of the installation."""
    one = Certificates(tmp_path / "certificates")
    one.ensure([SERVER, CALLER, COMMANDS])
    return one


def tls(certificates: Certificates, wanted: Wanted) -> Tls:
    files = certificates.files(wanted.name)
    assert files is not None
    return Tls(files)


def at(certificates: Certificates, shift: timedelta) -> Certificates:
    """The same folder and CA, at another time."""
    return Certificates(certificates.folder, ManualClock(datetime.now(UTC) + shift))


def of_another(tmp_path: Path, *wanted: Wanted) -> Certificates:
    """Certificates of a CA that somebody has made themselves, and that believes ours."""
    other = Certificates(tmp_path / "other")
    other.ensure(wanted)
    return other


@contextlib.asynccontextmanager
async def served(shown: Tls, echo: Echo | None = None) -> AsyncIterator[str]:
    """A server of set-1 by TLS; yields its URL."""
    app = web.Application()
    doorkeeper = Doorkeeper(accepted_keys(accepts("set-1-a"), "set-1-a", (GATEWAY, OPERATOR)))

    async def admin(request: web.Request) -> web.Response:
        return web.Response(text="told", headers={PROOF_HEADER: admit(doorkeeper, request).proof})

    app.router.add_get("/admin/hot", admin)
    load = Load()
    add_link(app, echo or Echo(), doorkeeper, load)
    beating = asyncio.ensure_future(load.service().run())
    async with HttpServer(app, "127.0.0.1", 0, tls=shown.server) as server:
        yield f"https://127.0.0.1:{server.port}"
    beating.cancel()


async def refusal(url: str, shown: Tls | None, key: object = GATEWAY_KEY) -> str:
    """Return why a link does not come up."""
    async with kept(Link("set-1-a", url, key=key, tls=shown)) as link:  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            while not link.refusal:
                assert not link.up
                await asyncio.sleep(0.01)
        return link.refusal


async def test_a_link_and_a_request_over_tls(own: Certificates) -> None:
    """Both ends prove their key inside of TLS, as they do without it."""
    async with served(tls(own, SERVER)) as url:
        async with kept(Link("set-1-a", url, key=GATEWAY_KEY, tls=tls(own, CALLER))) as link:
            await up(link)
            assert await link.call(Op.GRAB) == ["gateway", "gateway/set-1-a"]
        async with session(tls(own, COMMANDS)) as asking:
            assert await ask(asking, OPERATOR_KEY, "set-1-a", f"{url}/admin/hot") == b"told"


async def test_one_of_several_at_a_name_is_asked_in_that_name(own: Certificates) -> None:
    """Three wallets share the certificate of their name: each is asked at its own address."""
    own.ensure([wallet := Wanted("wallet", "wallet", ("wallet.hongbao",))])
    shown, asking = tls(own, wallet), tls(own, COMMANDS)
    app = web.Application()

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ready")

    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", ready)
    access: Any = SimpleNamespace(tls=asking)
    async with HttpServer(app, "127.0.0.1", 0, tls=shown.server) as server:
        assert await probe_ready("127.0.0.1", server.port, asking, "wallet.hongbao") == "200 ready"
        assert "for other hosts" in await probe_ready("127.0.0.1", server.port, asking)
        address = f"127.0.0.1:{server.port}"
        named = Part(
            name="wallet@1", kind=Kind.WALLET, address=address, url=f"https://{address}", certified="wallet.hongbao"
        )
        scraper = Scraper(access)
        looks = await scraper.look([named, structs.replace(named, name="wallet", certified="")])
        await scraper.rest()
    assert (looks["wallet@1"].up, looks["wallet@1"].detail) == (True, "")
    assert "for other hosts" in looks["wallet"].detail


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        ("expired", "shows a certificate that has expired; there make another one"),
        ("not yet valid", "shows a certificate that is not valid yet; see the clocks"),
        ("self-made", "shows a certificate that is not of the CA that is trusted here"),
        ("of another host", "shows a certificate for other hosts; there make another one"),
        ("of a caller", "shows a certificate that cannot be accepted: unsuitable certificate purpose"),
        ("none at all", "does not speak TLS; set HONGBAO_TLS_CERT there"),
    ],
)
async def test_a_server_whose_certificate_is_wrong_is_told_nothing(
    own: Certificates, tmp_path: Path, server: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link stays down, its reason is one sentence, and the server has heard no request."""
    caller, echo = tls(own, CALLER), Echo()
    match server:
        case "expired" | "not yet valid":
            at(own, PAST if server == "expired" else FUTURE).ensure([SERVER], anew=True)
            # Its own look at the certificate would end the handshake before it is shown.
            monkeypatch.setattr("runtime.tls.Tls._refuse_if_unusable", lambda *_: None)
            shown = tls(own, SERVER)
        case "self-made":
            shown = tls(of_another(tmp_path, SERVER), SERVER)
        case "of another host":
            own.ensure([Wanted(SERVER.name, SERVER.role, ("db1.example", "10.0.0.1"))])
            shown = tls(own, SERVER)
        case _:
            shown = caller
    if server == "none at all":
        async with served(shown) as url:
            pass
        app = web.Application()
        async with HttpServer(app, "127.0.0.1", 0) as plain:
            assert sentence in await refusal(f"https://127.0.0.1:{plain.port}", caller)
        return
    async with served(shown, echo) as url:
        assert sentence in await refusal(url, caller)
    assert echo.asked == []


@pytest.mark.parametrize(
    ("caller", "sentence"),
    [
        ("expired", "says that this process's certificate is not valid now; make another one"),
        ("not yet valid", "does not accept this process's certificate"),
        ("self-made", "does not know the CA of this process's certificate"),
        ("of the wallet", "does not accept this process's certificate for a call"),
        ("of another role", "accepts our key of gateway/set-1-a, and our certificate is of another role"),
        ("none", "asks for a certificate, and this process has none"),
    ],
)
async def test_a_caller_whose_certificate_is_wrong_is_served_nothing(
    own: Certificates, tmp_path: Path, caller: str, sentence: str
) -> None:
    """It hears in one sentence which certificate is wrong, and the server has handled no request of it."""
    server, echo = tls(own, SERVER), Echo()
    match caller:
        case "expired" | "not yet valid":
            at(own, PAST if caller == "expired" else FUTURE).ensure([CALLER], anew=True)
            shown = tls(own, CALLER)
            assert ("expired" if caller == "expired" else "not valid before") in shown.problem
        case "self-made":
            other = of_another(tmp_path, CALLER)
            (other.folder / CA_CERT).write_bytes((own.folder / CA_CERT).read_bytes())
            shown = tls(other, CALLER)
        case "of the wallet":
            wallet = Wanted("wallet", "wallet", ("127.0.0.1",))
            own.ensure([wallet])
            shown = tls(own, wallet)
        case "none":
            shown = tls(own, CALLER)
            bare = Tls(shown.files)
            bare.client = _without_certificate(own)
            shown = bare
        case _:
            shown = server
    async with served(server, echo) as url:
        assert sentence in await refusal(url, shown)
    assert echo.asked == []


def _without_certificate(own: Certificates) -> object:
    import ssl

    context = ssl.create_default_context(cafile=str(own.folder / CA_CERT))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


async def test_a_request_with_the_certificate_of_another_role_is_refused(own: Certificates) -> None:
    """A gateway that has got hold of the operators' key is no operator."""
    async with served(tls(own, SERVER)) as url, session(tls(own, CALLER)) as asking:
        with pytest.raises(LinkRefused, match="our certificate is of another role"):
            await ask(asking, OPERATOR_KEY, "set-1-a", f"{url}/admin/hot")


async def test_a_certificate_alone_opens_nothing(own: Certificates) -> None:
    """The key is asked for as well."""
    async with served(tls(own, SERVER)) as url:
        assert "does not accept our key" in await refusal(url, tls(own, CALLER), setnode_key())


async def test_a_renewed_certificate_is_taken_while_it_serves(own: Certificates) -> None:
    """New connections see it, those that are up stay; a file that is no good changes nothing and is said once."""
    server, caller = tls(own, SERVER), tls(own, CALLER)
    async with served(server) as url, kept(Link("set-1-a", url, key=GATEWAY_KEY, tls=caller)) as link:
        await up(link)
        socket, before = link._socket, await _serial(url, caller)
        own.ensure([SERVER, CALLER], anew=True)
        assert server.look()
        assert caller.look()
        assert not server.look()
        assert await _serial(url, caller) != before
        assert await link.call(Op.GRAB)
        assert link._socket is socket
        server.files.cert.write_text("no certificate")
        assert not server.look()
        assert await _serial(url, caller) != before


async def test_an_expired_server_serves_again_once_it_has_a_new_one(own: Certificates) -> None:
    """While it has expired each handshake ends, and the caller says why; after the renewal the link comes up."""
    at(own, PAST).ensure([SERVER], anew=True)
    server, caller = tls(own, SERVER), tls(own, CALLER)
    async with served(server) as url, kept(Link("set-1-a", url, key=GATEWAY_KEY, tls=caller)) as link:
        await until(lambda: "has no certificate that is valid now" in link.refusal)
        own.ensure([SERVER])
        server.look()
        await until(lambda: link.up)
        assert link.refusal == ""


async def _serial(url: str, shown: Tls) -> str:
    async with session(shown) as asking, asking.get(f"{url}/admin/hot") as answer:
        assert answer.connection is not None or answer.status
    host, _, port = url.removeprefix("https://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=shown.client)
    try:
        return str(writer.get_extra_info("peercert")["serialNumber"])
    finally:
        writer.close()
        await writer.wait_closed()


async def test_who_is_refused_by_tls_is_logged_by_the_server_too(
    own: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line a second at most, with the reason; somebody who speaks no TLS is hung up on at once."""
    monkeypatch.setattr("runtime.tls._refusals", logs.Budget(1))
    monkeypatch.setattr("runtime.tls._log", logs.get("tls"))
    other = of_another(tmp_path, CALLER)
    (other.folder / CA_CERT).write_bytes((own.folder / CA_CERT).read_bytes())
    async with served(tls(own, SERVER)) as url:
        with capture_logs() as said:
            await refusal(url, tls(other, CALLER))
        assert "a caller is refused by TLS" in [one["event"] for one in said]
        async with aiohttp.ClientSession() as plain, asyncio.timeout(5):
            with pytest.raises(aiohttp.ClientError):
                await plain.get(url.replace("https", "http"))


@pytest.mark.parametrize(
    ("cert", "key", "ca"), [("x", "", ""), ("", "", "x"), ("", "x", ""), ("x", "x", ""), ("", "x", "x")]
)
def test_settings_that_name_only_a_part_are_refused(cert: str, key: str, ca: str) -> None:
    """A certificate without a CA would verify nobody, and the reverse would show nothing."""
    with pytest.raises(Refused, match="go together") as caught:
        files_of(cert, key, ca)
    assert caught.value.code == "settings_invalid"


def test_settings_that_name_nothing_are_no_tls() -> None:
    """Off unless it is asked for; the key may be in the file of the certificate."""
    assert files_of("", "", "") is None
    found = files_of("/a", "", "/b")
    assert found is not None
    assert found.key == Path("/a")


@pytest.mark.parametrize("wrong", ["not there", "empty", "no certificate", "the key of another", "no CA", "a folder"])
def test_files_that_are_no_good_are_refused_by_a_sentence(own: Certificates, tmp_path: Path, wrong: str) -> None:
    """Each says which file, and what to do."""
    files = own.files(SERVER.name)
    assert files is not None
    match wrong:
        case "not there":
            files.cert.unlink()
        case "empty":
            files.cert.write_bytes(b"")
        case "no certificate":
            files.cert.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        case "the key of another":
            other = of_another(tmp_path, SERVER).files(SERVER.name)
            assert other is not None
            files = files_of(str(files.cert), str(other.key), str(files.ca))
            assert files is not None
        case "no CA":
            files.ca.write_text("nothing")
        case "a folder":
            files.cert.unlink()
            files.cert.mkdir()
    with pytest.raises(Refused) as caught:
        Tls(files)
    assert caught.value.code == "tls_files_invalid"
    assert str(files.cert.parent) in caught.value.detail


def test_what_is_no_fault_of_certificates_is_not_called_one() -> None:
    """A server that is merely away has no sentence of this kind."""
    assert sentence_of(ConnectionRefusedError("no"), "https://x") == ""
    assert sentence_of(TimeoutError(), "https://x") == ""


def test_everything_of_the_folder_is_for_its_owner_alone(own: Certificates) -> None:
    """Keys and certificates are 0600, and the CA's key is in no other file."""
    paths = list(own.folder.iterdir())
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert own.folder.stat().st_mode & 0o777 == 0o700
    secret = (own.folder / CA_KEY).read_bytes()
    assert not [path for path in paths if path.name != CA_KEY and secret in path.read_bytes()]
    assert json.dumps([path.name for path in sorted(paths)]) == json.dumps(
        ["ca.key", "ca.pem", "gateway.pem", "operator.pem", "set-1-a.pem"]
    )
