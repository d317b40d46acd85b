//! Writes the content library files: one OVF descriptor and one disk per image.

use std::fs;
use std::path::{Path, PathBuf};

use nodeimage::OvfDescriptor;

use super::releases::{NODE_IMAGES, NodeImage};

/// A content library item, in the format of the simulator's spec.
#[derive(Debug, serde::Serialize)]
pub struct Item {
    /// The item name, which is also the prefix of its file names.
    pub name: String,
    /// The paths to the descriptor and the disk, in this order.
    pub files: Vec<PathBuf>,
}

/// The name of an image without release data, which therefore isn't a Kubernetes node image.
pub const PLAIN: &str = "photon-5-plain";

/// Writes the files of `images` below `folder` and returns the items.
pub fn written(folder: &Path, images: &[NodeImage<'_>]) -> std::io::Result<Vec<Item>> {
    fs::create_dir_all(folder)?;
    let disk = disk();
    images.iter().map(|image| item(folder, image.item, &ovf(image, disk.len()), &disk)).collect()
}

/// Writes the descriptors of real images below `folder`, each with an empty disk. QEMU uses the image's qcow2 file instead.
pub fn of_real(folder: &Path, images: &[crate::boot_image::BootImage]) -> std::io::Result<Vec<Item>> {
    fs::create_dir_all(folder)?;
    let disk = disk();
    images
        .iter()
        .map(|image| {
            // The library requires that the size in the descriptor equals the file size.
            let size = image.descriptor.split("ovf:size=\"").nth(1).and_then(|rest| rest.split('"').next());
            let sized = |size: &str| format!("ovf:size=\"{size}\"");
            let text =
                image.descriptor.replace(&sized(size.unwrap_or_default()), &sized(&disk.len().to_string()));
            item(folder, &image.name, &text, &disk)
        })
        .collect()
}

/// Writes the files of [`PLAIN`] below `folder`, which must exist, and returns the item.
pub fn plain(folder: &Path) -> std::io::Result<Item> {
    let disk = disk();
    let node = NodeImage { item: PLAIN, ..NODE_IMAGES[0] };
    let released = ovf(&node, disk.len());
    let lines = released.lines().filter(|line| !line.trim_start().starts_with("<Property "));
    item(folder, PLAIN, &lines.collect::<Vec<_>>().join("\n"), &disk)
}

fn item(folder: &Path, name: &str, ovf: &str, disk: &[u8]) -> std::io::Result<Item> {
    let files = vec![folder.join(format!("{name}.ovf")), folder.join(disk_file(name))];
    fs::write(&files[0], ovf)?;
    fs::write(&files[1], disk)?;
    Ok(Item { name: name.to_owned(), files })
}

/// Returns a node image's OVF descriptor, with the release data as properties.
fn ovf(image: &NodeImage<'_>, disk_bytes: usize) -> String {
    let (os, os_version, guest_id) = image.os.facts();
    OvfDescriptor {
        name: image.item,
        os: (os, os_version),
        guest_id,
        hardware: "vmx-15",
        config: &[],
        extra_config: &[],
        product: "vSphere Kubernetes Service - Guest Cluster Image".to_owned(),
        vendor: "VMware Inc.",
        version: image.version,
        disk_file: &disk_file(image.item),
        disk_file_bytes: disk_bytes as u64,
        disk_bytes: DISK_BYTES,
        properties: image.properties(),
    }
    .text()
}

fn disk_file(item: &str) -> String {
    format!("{item}-disk1.vmdk")
}

/// The capacity of an image's disk.
const DISK_BYTES: u64 = 20 << 30;
const SECTOR: usize = 512;

/// Returns the smallest valid stream-optimized VMDK: a header and a descriptor, without data.
fn disk() -> Vec<u8> {
    let mut disk = vec![0; 2 * SECTOR];
    disk[..4].copy_from_slice(b"KDMV");
    disk[4..8].copy_from_slice(&3_u32.to_le_bytes());
    // Flags: the newline test is valid, grains are compressed, markers are used.
    disk[8..12].copy_from_slice(&0x0003_0001_u32.to_le_bytes());
    let capacity_sectors = DISK_BYTES / SECTOR as u64;
    disk[12..20].copy_from_slice(&capacity_sectors.to_le_bytes());
    // Grain size, descriptor offset and descriptor size, in sectors.
    disk[20..28].copy_from_slice(&128_u64.to_le_bytes());
    disk[28..36].copy_from_slice(&1_u64.to_le_bytes());
    disk[36..44].copy_from_slice(&1_u64.to_le_bytes());
    disk[44..48].copy_from_slice(&512_u32.to_le_bytes());
    disk[73..77].copy_from_slice(b"\n \r\n");
    disk[77..79].copy_from_slice(&1_u16.to_le_bytes());
    let descriptor = format!(
        "# Disk DescriptorFile\nversion=1\nCID=7a3b11e0\nparentCID=ffffffff\ncreateType=\"streamOptimized\"\n\
         RW {capacity_sectors} SPARSE \"disk1.vmdk\"\nddb.adapterType = \"lsilogic\"\nddb.virtualHWVersion = \"15\"\n"
    );
    disk[SECTOR..SECTOR + descriptor.len()].copy_from_slice(descriptor.as_bytes());
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_descriptor_carries_every_property_escaped() {
        let text = ovf(&NODE_IMAGES[0], 1024);
        assert!(text.contains("ovf:key=\"vmware-system.guest.kubernetes.distribution.image.version\""));
        assert!(text.contains("&quot;version&quot;:&quot;v1.17.4+vmware.1&quot;"));
        assert!(text.contains("<FullVersion>v1.17.4+vmware.1-tkg.1.0dba899</FullVersion>"));
    }

    #[test]
    fn the_disk_is_a_header_and_a_descriptor() {
        let disk = disk();
        assert_eq!(disk.len(), 1024);
        assert_eq!(&disk[..4], b"KDMV");
    }
}
