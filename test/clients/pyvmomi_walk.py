"""pyVmomi makes a VM and reads every property of every object that it can reach; each must decode."""
import collections
import ssl
import sys
import tempfile

from pyVim.connect import SmartConnect
from pyVim.task import WaitForTask
from pyVmomi import VmomiSupport, vim

from site_vcsim import PASSWORD, USER, Site


def make_vms(content):
    """A VM with a disk and an adapter that runs, has a snapshot and a linked clone, and one that is a template."""
    datacenter = content.rootFolder.childEntity[0]
    folder = next(f for f in datacenter.vmFolder.childEntity if f.name == "layercake")
    cluster = datacenter.hostFolder.childEntity[0]
    pool = next(p for p in cluster.resourcePool.resourcePool if p.name == "layercake")
    spec = vim.vm.ConfigSpec(name="walked", guestId="otherLinux64Guest", numCPUs=1, memoryMB=64, deviceChange=devices(datacenter),
                             files=vim.vm.FileInfo(vmPathName="[ds0]"))
    vm = wait(folder.CreateVM_Task(spec, pool))
    wait(vm.PowerOnVM_Task())
    snapshot = wait(vm.CreateSnapshot_Task("first", "", False, False))
    location = vim.vm.RelocateSpec(diskMoveType="createNewChildDiskBacking", pool=pool)
    wait(vm.CloneVM_Task(folder, "linked", vim.vm.CloneSpec(location=location, snapshot=snapshot, powerOn=True)))
    wait(vm.CloneVM_Task(folder, "template", vim.vm.CloneSpec(location=vim.vm.RelocateSpec(pool=pool), template=True, powerOn=False)))


def devices(datacenter):
    """A controller, a disk on it, and an adapter in the network `VM Network`."""
    add = vim.vm.device.VirtualDeviceSpec.Operation.add
    controller = vim.vm.device.ParaVirtualSCSIController(key=-1, busNumber=0, sharedBus="noSharing")
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName="", diskMode="persistent", thinProvisioned=True)
    disk = vim.vm.device.VirtualDisk(key=-2, controllerKey=-1, unitNumber=0, capacityInKB=1 << 20, backing=backing)
    network = next(n for n in datacenter.network if n.name == "VM Network")
    adapter = vim.vm.device.VirtualVmxnet3(key=-3, backing=vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(
        deviceName=network.name, network=network))
    return [
        vim.vm.device.VirtualDeviceSpec(operation=add, device=controller),
        vim.vm.device.VirtualDeviceSpec(operation=add, fileOperation="create", device=disk),
        vim.vm.device.VirtualDeviceSpec(operation=add, device=adapter),
    ]


def wait(task):
    WaitForTask(task)
    return task.info.result


def references(value):
    """The managed objects that a value names."""
    if isinstance(value, VmomiSupport.ManagedObject):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, VmomiSupport.DataObject):
        for field in value._GetPropertyList():
            yield from references(getattr(value, field.name))


def walk(start):
    """Reads all properties of all objects; gives how many of each type, and what could not be read."""
    queue, seen, counts, failures = collections.deque([start]), set(), collections.Counter(), {}
    while queue:
        found = queue.popleft()
        if (type(found), found._moId) in seen:
            continue
        seen.add((type(found), found._moId))
        for field in found._GetPropertyList():
            if not VmomiSupport.IsChildVersion(found._stub.version, found._GetPropertyInfo(field.name).version):
                continue  # came with a later release than the server's
            try:
                queue.extend(references(getattr(found, field.name)))
                counts[found._wsdlName] += 1
            except Exception as error:
                failures.setdefault(f"{found._wsdlName}.{field.name}", f"{type(error).__name__}: {getattr(error, 'msg', error)}")
    return counts, failures


def main():
    with tempfile.TemporaryDirectory() as folder, Site(folder) as site:
        trust = ssl.create_default_context(cafile=site.path("cert.pem"))
        instance = SmartConnect(host=site.host, port=int(site.port), user=USER, pwd=PASSWORD, sslContext=trust)
        make_vms(instance.RetrieveContent())
        counts, failures = walk(instance)
    print(f"pyVmomi read {sum(counts.values())} properties of {len(counts)} types: {', '.join(sorted(counts))}")
    for place, error in sorted(failures.items()):
        print(f"{place}: {error}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
