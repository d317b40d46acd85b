//! The lists of conditions in the statuses that Layercake's controllers write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use crate::conditions::Condition;

/// A status with lists of conditions.
pub trait ConditionLists {
    /// The type of the conditions.
    type Condition;

    /// Returns all lists of conditions, each with its name. The name of the status's own list is empty. A list of a part, such as an
    /// add-on, has the name of the part.
    fn condition_lists(&mut self) -> Vec<(String, &mut Vec<Self::Condition>)>;

    /// Returns the list with this name. It is empty if there is none.
    fn condition_list(&self, name: &str) -> &[Self::Condition];
}

/// Implements [`ConditionLists`] for statuses that have one list, in the field `conditions`.
macro_rules! one_list {
    ($($condition:ty: $($status:ty),+;)+) => {$($(
        impl ConditionLists for $status {
            type Condition = $condition;

            fn condition_lists(&mut self) -> Vec<(String, &mut Vec<Self::Condition>)> {
                vec![(String::new(), &mut self.conditions)]
            }

            fn condition_list(&self, _name: &str) -> &[Self::Condition] {
                &self.conditions
            }
        }
    )+)+};
}

one_list!(
    meta::Condition:
        crate::capw::ProviderServiceAccountStatus,
        crate::capw::WCPClusterStatus,
        crate::capw::WCPMachineStatus;
    Condition:
        crate::gcm::release::OSImageStatus,
        crate::gcm::release::TanzuKubernetesReleaseStatus,
        crate::vmop::VirtualMachineImageStatus,
        crate::vmop::VirtualMachineServiceStatus,
        crate::vmop::VirtualMachineSetResourcePolicyStatus;
);

/// Implements [`ConditionLists`] for statuses without conditions.
macro_rules! no_list {
    ($($status:ty),+) => {$(
        impl ConditionLists for $status {
            type Condition = Condition;

            fn condition_lists(&mut self) -> Vec<(String, &mut Vec<Self::Condition>)> {
                Vec::new()
            }

            fn condition_list(&self, _name: &str) -> &[Self::Condition] {
                &[]
            }
        }
    )+};
}

no_list!(crate::capw::WCPMachineTemplateStatus, crate::vmop::WebConsoleRequestStatus);

impl ConditionLists for crate::gcm::TanzuKubernetesClusterStatus {
    type Condition = Condition;

    fn condition_lists(&mut self) -> Vec<(String, &mut Vec<Condition>)> {
        let addons = self.addons.iter_mut().map(|addon| (addon.name.clone(), &mut addon.conditions));
        std::iter::once((String::new(), &mut self.conditions)).chain(addons).collect()
    }

    fn condition_list(&self, name: &str) -> &[Condition] {
        if name.is_empty() {
            return &self.conditions;
        }
        let addon = self.addons.iter().find(|addon| addon.name == name);
        addon.map(|addon| addon.conditions.as_slice()).unwrap_or_default()
    }
}
