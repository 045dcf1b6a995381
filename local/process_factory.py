"""Makes our own processes (wallet, setnodes, gateways): where each listens, and the settings in its environment."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from installation.certificates import Certificates
from installation.data_folder import DataFolder
from installation.keys import SECRET, Secrets
from installation.processes import Surroundings, settings_of
from local import play
from local.backing_services import BackingServices
from local.config import StackConfig
from local.gateway_ports import gateway_ports
from local.service import Service, ServiceSpec
from local.stable_ports import EVENTS, OPS, WALLET, StablePorts
from machine import ports
from schema import roles
from wire.keys import OPERATOR


class ProcessFactory:
    """Addresses are known from the beginning; a process can be made once the backing services have theirs."""

    def __init__(self, config: StackConfig, folder: DataFolder, secrets: Secrets) -> None:
        self._config = config
        self._folder = folder
        self._secrets = secrets
        stable = StablePorts(folder)
        setnodes = [one for name in config.set_names() for one in config.server_names(name)]
        more = [*([OPS] if config.ops else []), *([EVENTS] if config.events else [])]
        self._ports = {name: stable.reserve(name) for name in [WALLET, *setnodes, *more]}
        self._gateway_ports = gateway_ports(config)

    def url(self, name: str) -> str:
        """Return where the wallet or a setnode server listens."""
        scheme = "https" if self._config.tls and name not in (OPS, EVENTS) else "http"
        return f"{scheme}://{ports.LOOPBACK}:{self._ports[name]}"

    @property
    def gateway_names(self) -> list[str]:
        """The names of the gateways: gateway-1 and so on."""
        return [f"gateway-{number}" for number, _ in enumerate(self._gateway_ports.own, start=1)]

    def archive_key(self) -> str:
        """Return the key with which the setnodes verify the archive."""
        return self._config.env.get("HONGBAO_ARCHIVE_KEY") or self._secrets.key("ARCHIVE_KEY")

    def wallet(self, backing: BackingServices) -> Service:
        """Return the wallet's process, not started."""
        return self._service(WALLET, "wallet", self.url(WALLET), self._around(backing))

    def setnodes(self, set_name: str, backing: BackingServices) -> list[Service]:
        """Return the processes of one SET, not started."""
        around = self._around(backing)
        return [
            self._service(name, "setnode", self.url(name), around, set_name=set_name)
            for name in self._config.server_names(set_name)
        ]

    @property
    def gateway_url(self) -> str:
        """Where clients find the gateways: the port that they share, or the only gateway's own."""
        return f"http://{self._config.host}:{self._gateway_ports.shared or self._gateway_ports.own[0]}"

    def gateways(self, backing: BackingServices) -> list[Service]:
        """Return the gateways' processes, not started."""
        host, shared, around = self._config.host, self._gateway_ports.shared, self._around(backing)
        env = {} if shared is None else {"HONGBAO_SHARED_LISTEN": f"{host}:{shared}"}
        if self._config.play_users:
            env[play.SETTING] = ",".join(self._config.play_users)
        more = [] if shared is None else [(host, shared, True)]
        return [
            self._service(name, "gateway", f"http://{host}:{port}", around, env, [(host, port, False), *more])
            for name, port in zip(self.gateway_names, self._gateway_ports.own, strict=True)
        ]

    @property
    def ops_url(self) -> str:
        """Where the operator's view is served; "" if it is not."""
        return self.url(OPS) if self._config.ops else ""

    def ops(self, backing: BackingServices) -> Service:
        """Return the process of the operator's view, not started."""
        return self._service(OPS, OPS, self.ops_url, self._around(backing))

    @property
    def events_url(self) -> str:
        """Where the process that delivers events has its probes; "" if there is none."""
        return self.url(EVENTS) if self._config.events else ""

    def events(self, backing: BackingServices) -> Service:
        """Return the process that delivers events, not started."""
        return self._service(EVENTS, EVENTS, self.events_url, self._around(backing))

    def _around(self, backing: BackingServices) -> Surroundings:
        return Surroundings(
            topology=self._folder.topology,
            wallet_url=self.url(WALLET),
            memcached=backing.memcached.address,
            archive=self._folder.archive_place,
            data=self._folder.path,
            sets=self._config.set_names(),
            dsn=lambda server, role: backing.postgres[server].dsn(role, roles.DATABASE),
            sandbox_clock=str(self._folder.sandbox_clock) if self._config.sandbox else "",
            certificates=Certificates(self._folder.certificates) if self._config.tls else None,
        )

    def _service(
        self,
        name: str,
        kind: str,
        url: str,
        around: Surroundings,
        more: Mapping[str, str] | None = None,
        doors: Sequence[tuple[str, int, bool]] = (),
        *,
        set_name: str = "",
    ) -> Service:
        address = urlsplit(url)
        env = settings_of(kind, name, around, self._secrets, set_name)
        # What is set for all, but a key only for those that use it.
        given = {name: value for name, value in self._config.env.items() if name in env or name not in SECRET}
        log, module = self._folder.log(name), self._config.modules[kind]
        files = Certificates(self._folder.certificates).files(OPERATOR) if address.scheme == "https" else None
        spec = ServiceSpec(
            name,
            module,
            str(address.hostname),
            int(address.port or 0),
            {**env, **given, **(more or {})},
            log,
            doors,
            files,
        )
        return Service(spec)
