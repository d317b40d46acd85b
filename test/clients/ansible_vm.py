"""Ansible's community.vmware makes, changes, clones and destroys a VM."""
import os
import subprocess
import sys
import tempfile

from site_vcsim import HERE, PASSWORD, USER, Site


def main():
    collections = next(path for path in sys.path if os.path.isdir(os.path.join(path, "ansible_collections")))
    with tempfile.TemporaryDirectory() as folder, Site(folder) as site:
        site.write("vcenter.json", {"vcenter": {"host": site.host, "port": int(site.port), "user": USER, "password": PASSWORD}})
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_HOME": site.path("ansible"),
                       "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_PYTHON_INTERPRETER": sys.executable, "LC_ALL": "C.UTF-8"}
        playbook = os.path.join(HERE, "ansible_vm.yaml")
        command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-e", f"@{site.path('vcenter.json')}", playbook]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
