"""nginx in front of the gateways: each envelope's requests go to one of them, as long as it answers."""

from collections.abc import Sequence

from hosts.host import Host
from hosts.program import HostProgram
from machine.account import Account
from machine.debian_programs import Program, find_program

PORT = 8080

_CONF = """worker_processes 1;
pid {own}/nginx.pid;
error_log stderr warn;
events {{
    worker_connections 8192;
}}
http {{
    access_log off;
    server_tokens off;
    {temporary}
    # Of /v1/envelopes/ID/open the ID; anything else goes anywhere.
    map $uri $envelope {{
        ~^/v1/envelopes/(?<id>[^/]+) $id;
        default $request_id;
    }}
    upstream gateways {{
        hash $envelope consistent;
{servers}
        keepalive 64;
        # Shorter than a gateway drains (HONGBAO_DRAIN_S): it never ends an idle connection that is about to be used.
        keepalive_timeout 4s;
    }}
    server {{
        listen {listen} backlog=4096;
        client_max_body_size 64k;
        location / {{
            proxy_pass http://gateways;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $remote_addr;
            # A gateway of this network accepts within a millisecond; one that is lost says nothing.
            proxy_connect_timeout 1s;
            proxy_read_timeout 30s;
        }}
    }}
}}
"""


async def find_nginx(account: Account, host: Host) -> Program:
    """Return Debian's nginx; raises Refused `no_nginx`."""
    return await find_program("nginx", account, host.folder, package="nginx-core")


def nginx(program: Program, host: Host, gateways: Sequence[str], account: Account) -> HostProgram:
    """Return it, not started. `gateways`: HOST:PORT of each."""
    own = host.folder / "nginx"
    own.mkdir(mode=0o700)
    account.chown(own)
    kept = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    text = _CONF.format(
        own=own,
        temporary=" ".join(f"{one}_temp_path {own}/{one};" for one in kept),
        servers="\n".join(f"        server {one} max_fails=1 fail_timeout=2s;" for one in gateways),
        listen=f"{host.front}:{PORT}",
    )
    conf = own / "nginx.conf"
    conf.write_text(text, encoding="utf-8")
    account.chown(conf)
    argv = [str(program.path), "-p", str(own), "-e", "stderr", "-g", "daemon off;", "-c", str(conf)]
    return HostProgram("nginx", host, account, argv, program.env())
