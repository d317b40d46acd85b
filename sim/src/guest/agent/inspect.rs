//! What stories see of a guest's disk and of its etcd.

use super::Guests;
use crate::guest::disk::Disk;
use crate::guest::etcd::Etcd;
use crate::guest::failure::{Failure, Reason};
use crate::guest::kubeadm::CERTIFICATES_DIR;
use crate::vcsim::control::{Vm, VmDisk};

impl Guests {
    /// Returns the mount points of a VM, each with its disk, as its guest has them since its last boot.
    pub fn mounts_of(&self, vm: &Vm) -> Vec<(String, VmDisk)> {
        let disk = Disk::at(self.0.shared.disk_folder(&vm.moid)).map(|disk| disk.with_devices(&vm.disks));
        disk.map(|disk| disk.mounted()).unwrap_or_default()
    }

    /// Returns the text of a file on the disk of the VM of that name.
    pub fn read_file(&self, name: &str, path: &str) -> Option<String> {
        let report = self.boot_of(name)?;
        Disk::at(self.0.shared.disk_folder(&report.moid)).ok()?.read(path)
    }

    /// Returns the bytes that etcd stores under a key, from the member on the VM of that name.
    ///
    /// # Errors
    /// The VM does not run a member that answers.
    pub async fn etcd_value(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let missing = || Failure::new(Reason::Etcd, format!("{name} has not booted"));
        let report = self.boot_of(name).ok_or_else(missing)?;
        let disk = Disk::at(self.0.shared.disk_folder(&report.moid))?;
        let endpoint = format!("https://{}:2379", report.address.served);
        Etcd::at(vec![endpoint], &disk, CERTIFICATES_DIR)?.value(key).await
    }
}
