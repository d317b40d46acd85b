"""cloud-init reads a VM's guestinfo by its own VMware datasource, and writes back what it writes in a real VM.

Between it and the simulator stands the program that VMware Tools brings, `vmware-rpctool`, which needs a hypervisor: a few lines do
here what it does there."""
import base64
import contextlib
import gzip
import os
import ssl
import sys
import tempfile
from unittest import mock

from cloudinit import distros, helpers, settings
from cloudinit.sources import DataSourceVMware
from pyVim.connect import SmartConnect
from pyVmomi import vim

from pyvmomi_walk import devices, wait
from site_vcsim import CONTROL_TOKEN, PASSWORD, USER, Site

METADATA = """
instance-id: 11111111-2222-3333-4444-555555555555
local-hostname: read
redact: [userdata]
network:
  version: 2
  ethernets:
    eth0: {match: {macaddress: "00:50:56:01:02:03"}, set-name: eth0, dhcp4: true}
"""
USERDATA = "#cloud-config\nwrite_files:\n- {path: /etc/secret, content: s3cret}\n"
RPCTOOL = r'''#!/usr/bin/env python3
import json, os, sys, urllib.error, urllib.request

def call(method, body=None):
    request = urllib.request.Request(os.environ["GUESTINFO_URL"], method=method, data=body and json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + os.environ["GUESTINFO_TOKEN"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()

command, _, rest = sys.argv[1].partition(" ")
if command == "info-get":
    value = json.loads(call("GET")).get(rest)
    if value is None:
        sys.stderr.write("No value found")
        sys.exit(1)
    sys.stdout.write(value)
else:
    key, _, value = rest.partition(" ")
    call("PATCH", {key: value})
'''


def packed(text):
    """As the VM operator writes it."""
    return base64.b64encode(gzip.compress(text.encode())).decode()


def make_vm(content):
    """A VM that runs, with guestinfo."""
    datacenter = content.rootFolder.childEntity[0]
    folder = next(f for f in datacenter.vmFolder.childEntity if f.name == "layercake")
    pool = next(p for p in datacenter.hostFolder.childEntity[0].resourcePool.resourcePool if p.name == "layercake")
    values = {
        "guestinfo.metadata": packed(METADATA), "guestinfo.metadata.encoding": "gzip+base64",
        "guestinfo.userdata": packed(USERDATA), "guestinfo.userdata.encoding": "gzip+base64",
    }
    extra = [vim.option.OptionValue(key=key, value=value) for key, value in values.items()]
    spec = vim.vm.ConfigSpec(name="read", guestId="otherLinux64Guest", numCPUs=1, memoryMB=64, deviceChange=devices(datacenter),
                             files=vim.vm.FileInfo(vmPathName="[ds0]"), extraConfig=extra)
    vm = wait(folder.CreateVM_Task(spec, pool))
    wait(vm.PowerOnVM_Task())
    return vm


def cloud_init(folder, rpctool):
    """The datasource after its two stages, as cloud-init runs them."""
    paths = helpers.Paths({"cloud_dir": os.path.join(folder, "cloud"), "run_dir": os.path.join(folder, "run")})
    distro = distros.fetch("debian")("debian", {}, paths)
    source = DataSourceVMware.DataSourceVMware(settings.CFG_BUILTIN, distro, paths)
    source.vmware_rpctool = rpctool
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(DataSourceVMware.dmi, "read_dmi_data", return_value="VMware7,1"))
        for writer in (DataSourceVMware.guestinfo_set_value, DataSourceVMware.guestinfo_redact_keys):
            # Their default is the tool that was there when the module was loaded.
            patches.enter_context(mock.patch.object(writer, "__defaults__", (rpctool,)))
        assert source.get_data(), "cloud-init finds no data"
        source.setup(True)
    return source


def main():
    with tempfile.TemporaryDirectory() as folder, Site(folder) as site:
        trust = ssl.create_default_context(cafile=site.path("cert.pem"))
        vm = make_vm(SmartConnect(host=site.host, port=int(site.port), user=USER, pwd=PASSWORD, sslContext=trust).RetrieveContent())
        os.environ.update(GUESTINFO_URL=f"{site.ready['control']}/v1/vms/{vm._moId}/guestinfo", GUESTINFO_TOKEN=CONTROL_TOKEN)
        rpctool = site.path("vmware-rpctool")
        with open(os.open(rpctool, os.O_CREAT | os.O_WRONLY, 0o700), "w", encoding="utf-8") as file:
            file.write(RPCTOOL)
        source = cloud_init(folder, rpctool)
        left = {option.key: option.value for option in vm.config.extraConfig if option.key.startswith("guestinfo.")}
    found = {
        "instance-id": source.get_instance_id(), "hostname": str(source.get_hostname().hostname), "userdata": source.get_userdata_raw(),
        "network": source.network_config["ethernets"]["eth0"]["set-name"], "vendordata": source.get_vendordata_raw(),
        "left": left["guestinfo.userdata"], "address": bool(left.get("guestinfo.local-ipv4")),
    }
    userdata = found["userdata"]
    found["userdata"] = userdata.decode() if isinstance(userdata, bytes) else userdata
    expected = {
        "instance-id": "11111111-2222-3333-4444-555555555555", "hostname": "read", "userdata": USERDATA, "network": "eth0",
        "vendordata": None, "left": "---", "address": True,
    }
    print(f"cloud-init read and wrote {found}")
    return 0 if found == expected else f"but it should be {expected}"


if __name__ == "__main__":
    sys.exit(main())
