//! Read access to a guest's disk and its etcd member, for tests.

use super::Guests;
use crate::guest::disk::Disk;
use crate::guest::etcd::Etcd;
use crate::guest::failure::{Failure, Reason};
use crate::guest::kubeadm::CERTIFICATES_DIR;
use crate::vcsim::control::{SimulatedVm, VmDisk};

impl Guests {
    /// Returns the VM's mount points with their disks, as the guest mounted them at its last boot.
    pub fn mounts_of(&self, vm: &SimulatedVm) -> Vec<(String, VmDisk)> {
        let disk = Disk::at(self.0.shared.disk_folder(&vm.moid)).map(|disk| disk.with_devices(&vm.disks));
        disk.map(|disk| disk.mounted()).unwrap_or_default()
    }

    /// Reads a text file on the named VM's disk. Returns `None` if the VM hasn't booted or the file can't be read.
    pub fn read_file(&self, name: &str, path: &str) -> Option<String> {
        let report = self.boot_of(name)?;
        Disk::at(self.0.shared.disk_folder(&report.moid)).ok()?.read(path)
    }

    /// Reads a key's value from the etcd member on the named VM. Returns `None` if the key doesn't exist.
    ///
    /// # Errors
    /// Returns an error if the VM hasn't booted, or if its etcd member doesn't respond.
    pub async fn etcd_value(&self, name: &str, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let missing = || Failure::new(Reason::Etcd, format!("{name} has not booted"));
        let report = self.boot_of(name).ok_or_else(missing)?;
        let disk = Disk::at(self.0.shared.disk_folder(&report.moid))?;
        let endpoint = format!("https://{}:2379", report.address.served);
        Etcd::at(vec![endpoint], &disk, CERTIFICATES_DIR)?.value(key).await
    }
}
