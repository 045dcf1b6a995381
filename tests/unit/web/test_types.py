"""The page's modules are typed by JSDoc and checked by TypeScript, where Node and npm are."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.site.files import FOLDER
from machine.checkout import CHECKOUT
from tests.unit.web.test_vendor import MANIFEST

TYPESCRIPT = "5.9.3"
CACHE = CHECKOUT / ".tools" / "typescript"
PACKAGES = {
    "preact": "node_modules/preact/src/index.d.ts",
    "preact/hooks": "node_modules/preact/hooks/src/index.d.ts",
    "htm": "node_modules/htm/dist/htm.d.ts",
    "lean-qr": "node_modules/lean-qr/index.d.ts",
}
INSTALL_S, CHECK_S = 60, 60


def compiler() -> Path:
    """Return tsc, installed once with the packages whose types it needs."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm on this machine: the page's types are not checked")
    wanted = {"typescript": TYPESCRIPT, **{one["package"]: one["version"] for one in MANIFEST}}
    tsc = CACHE / "node_modules" / ".bin" / "tsc"
    package = CACHE / "package.json"
    text = json.dumps({"private": True, "dependencies": wanted})
    if not tsc.exists() or package.read_text() != text:
        CACHE.mkdir(parents=True, exist_ok=True)
        package.write_text(text)
        command = [npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        try:
            done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if done is None or done.returncode:
            package.unlink()
            pytest.skip("npm's registry cannot be reached: the page's types are not checked")
    return tsc


@pytest.mark.timeout(INSTALL_S + CHECK_S + 30)
def test_types(tmp_path: Path) -> None:
    """`tsc --checkJs --strict` has nothing to say."""
    tsc = compiler()
    options = {
        "checkJs": True, "allowJs": True, "strict": True, "noEmit": True, "target": "es2022", "module": "esnext",
        "moduleResolution": "bundler", "lib": ["es2023", "dom", "dom.iterable"], "types": [], "skipLibCheck": True,
        "noFallthroughCasesInSwitch": True, "noUnusedLocals": True, "noUnusedParameters": True,
        "noImplicitReturns": True,
        "baseUrl": str(CACHE), "paths": {name: [path] for name, path in PACKAGES.items()},
    }  # fmt: skip
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": options, "include": [f"{FOLDER.as_posix()}/**/*.js"]})
    )
    done = subprocess.run(
        [tsc, "-p", tmp_path / "tsconfig.json"], capture_output=True, text=True, timeout=CHECK_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
