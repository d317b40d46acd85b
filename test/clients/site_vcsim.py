"""Starts the simulated vCenter, the program that LAYERCAKE_VCSIM names, for a client to be tried on it."""
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
USER, PASSWORD, CONTROL_TOKEN = "user", "not-a-secret-but-treated-as-one", "control-token"
SPEC = {
    "datacenter": "dc0", "cluster": "cluster0", "hosts": 2, "datastores": ["ds0", "ds1"], "resourcePool": "layercake",
    "folder": "layercake", "portGroups": ["VM Network", "workload"], "storagePolicies": [{"name": "Gold", "datastores": ["ds1"]}],
}


class Site:
    """A simulator in a folder of its own; it ends with the `with` block."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        goroot = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
        certificate = os.path.join(goroot, "src", "crypto", "tls", "generate_cert.go")
        subprocess.run(["go", "run", certificate, "--host", "127.0.0.1", "--ecdsa-curve", "P256"], cwd=self.folder, check=True,
                       capture_output=True)
        self.write("spec.json", SPEC)
        self.write("credentials.json", {"username": USER, "password": PASSWORD, "controlToken": CONTROL_TOKEN})
        arguments = ["--credentials", "credentials.json", "--tlscert", "cert.pem", "--tlskey", "key.pem", "--spec", "spec.json", "--stdin-exit"]
        self.process = subprocess.Popen([os.environ["LAYERCAKE_VCSIM"], *arguments], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, "TMPDIR": self.folder})
        self.ready = json.loads(self.process.stdout.readline())
        self.host, _, self.port = self.ready["url"].split("/")[2].partition(":")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(os.open(self.path(name), os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(content, file)
