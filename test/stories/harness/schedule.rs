//! Decides which stories run at the same time. All stories start at once, and wait here for places. The longest stories get places
//! first. The running stories take at least [`PLACES`], and up to [`MOST`] while processors are idle. So fewer run beside other
//! programs, such as emulated machines, and stories meet their deadlines.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::num::NonZero;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::harness::shared_stack::RUNTIME;

/// The total weight of stories that run even if all processors are busy.
const PLACES: u32 = 4;
/// The maximum total weight, if this user can create [`INSTANCES`] inotify instances for each unit of weight.
const MOST: u32 = 36;
/// The inotify instances that are reserved per unit of weight. A control plane node uses four, and a stack eight.
const INSTANCES: usize = 6;
/// The minimum interval over which idle processors are measured.
const IDLE: Duration = Duration::from_secs(2);
/// The free memory in KiB that is required to exceed [`PLACES`]. A story with its own stack and a cluster needs about 3 GiB.
const FREE: u64 = 5 << 20;
/// The weight of stories that aren't in [`LONG`].
const LIGHT: u32 = 1;
/// The deadline of stories that aren't in [`LONG`]. For others, twice their seconds are added.
const DEADLINE: Duration = Duration::from_mins(10);
/// The grace period after the deadline. If a story still blocks its thread then, the program exits.
const GRACE: Duration = Duration::from_mins(2);
/// The number of slow stories to print.
const SHOWN: usize = 10;

/// Stories that take more than a minute or start more than one node, with their seconds in a full run and their weight. The weight is
/// 1 for each pair of concurrent nodes, and more for a separate stack or emulated machines.
const LONG: &[(&str, u32, u32)] = &[
    ("nodes::real_node::first_boots_that_fail_name_their_causes", 1200, 6),
    ("nodes::real_node::a_cluster_of_machines_that_boot_serves_pods", 700, 6),
    ("clusters::release_upgrade::an_upgrade_of_three_and_three_loses_no_request", 441, 3),
    ("clusters::day_two::a_running_cluster_is_repaired_and_changed", 410, 2),
    ("causes::ill_clusters::an_ill_cluster_is_not_eaten_up_and_goes_with_its_namespace", 350, 2),
    ("moves::cluster::a_cluster_moves_with_all_below_it_and_its_endpoint_answers_all_along", 340, 2),
    ("clusters::release_upgrade::an_upgrade_over_two_minor_releases_goes_in_steps", 286, 2),
    ("guests::provider_accounts::a_guests_programs_get_rights_in_their_namespace_and_no_more", 249, 2),
    ("causes::first_boot::a_guest_that_says_nothing_is_named_with_its_power_and_tools", 236, 2),
    (
        "clusters::node_images::a_cluster_that_no_node_image_can_make_is_refused_and_another_outlives_its_holders",
        240,
        4,
    ),
    ("clusters::node_images::every_kind_of_node_image_makes_a_cluster_where_nodes_reach_a_registry", 120, 5),
    ("clusters::node_images::an_upgrade_leaves_the_agents_of_old_nodes_alone", 135, 3),
    (
        "clusters::node_images::a_container_network_that_nodes_cannot_have_is_refused_until_a_bundle_brings_it",
        90,
        4,
    ),
    ("clusters::api_server::a_new_cluster_encrypts_its_secrets_and_logs_who_reads_them", 200, 2),
    ("command::clusters::a_cluster_is_created_changed_and_deleted_as_the_page_says", 350, 3),
    ("clusters::life::a_cluster_is_created_read_scaled_rebooted_and_deleted", 225, 2),
    ("nodes::boot_data::a_node_boots_from_its_extra_config_alone", 157, 2),
    ("causes::first_machine::causes_of_the_first_machine_are_named_at_the_top", 155, 2),
    ("nodes::disks::a_node_keeps_etcd_and_containerd_on_disks_of_its_own", 148, 2),
    ("install::page::the_installation_page_leads_to_a_cluster_and_back", 150, 4),
    ("install::init::an_empty_cluster_becomes_a_management_cluster", 60, 2),
    ("install::init::cert_manager_issues_the_certificates_of_webhooks", 60, 2),
    (
        "command::layercake_command::up_once_brings_the_seeds_cluster_up_from_a_release_without_network",
        140,
        5,
    ),
    ("clusters::objects::a_cluster_is_read_object_by_object_as_the_page_says", 100, 2),
    ("command::examples::the_examples_of_commands_do_what_they_say", 100, 3),
    ("tenants::hostile_input::programs_withstand_hostile_input_within_their_memory", 114, 4),
    ("causes::halted::a_cluster_that_halts_says_why_and_goes_on", 113, 2),
    (
        "causes::first_boot::a_worker_that_cannot_pull_its_images_is_explained_while_the_control_plane_runs",
        105,
        2,
    ),
    ("command::bundle::a_bundle_says_what_blocks_and_holds_no_secret", 104, 2),
    ("guests::sync::a_guest_has_the_classes_and_administrators_of_its_namespace", 102, 2),
    ("clusters::plain::a_cluster_whose_class_changes_gets_other_templates", 97, 2),
    ("causes::missing_prerequisites::a_cluster_tells_at_the_top_what_is_missing_at_the_bottom", 96, 2),
    ("guests::addons::a_clusters_add_ons_are_applied_kept_and_pruned", 87, 2),
    ("guests::limits::a_cluster_says_what_it_lacks_and_is_ready", 120, 2),
    ("command::clusters::an_installed_management_cluster_gives_the_same_answers", 150, 3),
    (
        "command::shared_pool::the_address_of_a_control_plane_that_is_switched_off_is_not_given_to_another_one",
        120,
        3,
    ),
    ("command::bootstrap::bootstrap_clusters_do_what_the_page_says", 530, 3),
    ("command::bootstrap::a_bootstrap_cluster_that_is_killed_loses_and_doubles_no_vm", 340, 3),
    ("clusters::login::users_log_in_with_tokens_of_an_issuer_that_is_added_in_place", 160, 2),
    ("install::programs::each_program_runs_with_what_is_installed_for_it", 100, 1),
    ("virtual_machines::page::a_machine_is_made_by_hand_as_the_page_says", 85, 1),
    ("clusters::plain::the_zones_of_a_namespace_are_failure_domains_of_its_clusters", 84, 2),
    ("clusters::node_pools::pools_differ_as_the_manifest_says", 84, 2),
    ("clusters::autoscaler::an_autoscaler_scales_a_pool_from_none_and_back", 84, 2),
    ("virtual_machines::other_kinds::gcm_is_ready_where_the_kind_of_its_configuration_is_not_served", 80, 1),
    ("install::upgrade::an_upgrade_keeps_objects_and_replaces_the_configuration", 70, 1),
    ("command::layercake_command::a_killed_stack_leaves_no_process_and_no_folder_and_up_says_so", 60, 3),
    ("command::layercake_command::a_refused_manifest_does_not_stop_the_others", 57, 3),
    ("install::clusterctl_release::a_release_is_installed_and_removed_with_clusterctl", 53, 2),
    ("causes::first_boot::a_first_boot_that_fails_names_its_cause_at_the_top", 46, 2),
    ("tenants::releases::what_a_tenant_publishes_never_becomes_a_release", 45, 1),
    ("command::bundle::who_may_only_view_gets_a_bundle_that_says_what_it_lacks", 33, 2),
];

static STORIES: LazyLock<Stories> = LazyLock::new(Stories::default);

#[derive(Default)]
struct Stories {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    beside_others: Lane,
    one_by_one: Lane,
    finished: Vec<(Duration, String)>,
    /// The load when the first story began.
    began: Load,
    /// The load at the last measurement.
    measured: Load,
    /// The weight that may start before the load is measured again.
    spare: u32,
}

impl Default for State {
    fn default() -> Self {
        Self {
            beside_others: Lane::of(PLACES, most()),
            one_by_one: Lane::of(1, 1),
            finished: Vec::new(),
            began: Load::now(),
            measured: Load::now(),
            spare: 0,
        }
    }
}

/// A group of places, and the stories that wait for them.
struct Lane {
    places: u32,
    most: u32,
    taken: u32,
    /// Ordered by duration, the longest last.
    waiting: BTreeSet<(u32, String)>,
}

impl Lane {
    fn of(places: u32, most: u32) -> Self {
        Self { places, most, taken: 0, waiting: BTreeSet::new() }
    }

    fn is_idle(&self) -> bool {
        self.taken == 0 && self.waiting.is_empty()
    }
}

type Choose = fn(&mut State) -> &mut Lane;

/// A story that waits for its place.
pub struct Waiting {
    name: String,
    seconds: u32,
    weight: u32,
    lane: Choose,
}

/// A running story's place. It is freed on drop.
pub struct StoryPlace {
    name: String,
    weight: u32,
    lane: Choose,
    began: Instant,
    deadline: Duration,
    /// Stops the deadline thread on drop.
    _watch: mpsc::Sender<()>,
}

/// Enters the current thread's story, which can run concurrently with others.
pub fn enter() -> Waiting {
    enter_lane(|state| &mut state.beside_others)
}

/// Enters the current thread's story. Stories that enter with this function run one at a time, and don't take places from others.
pub fn enter_one_by_one() -> Waiting {
    enter_lane(|state| &mut state.one_by_one)
}

fn enter_lane(lane: Choose) -> Waiting {
    start_all_at_once();
    let name = thread::current().name().unwrap_or("story").to_owned();
    let (_, seconds, weight) =
        LONG.iter().find(|(long, ..)| *long == name).copied().unwrap_or(("", 0, LIGHT));
    let mut state = STORIES.lock();
    lane(&mut state).waiting.insert((seconds, name.clone()));
    Waiting { name, seconds, weight, lane }
}

impl Stories {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with it")
    }
}

impl Waiting {
    /// Waits until the story may run.
    pub async fn place(self) -> StoryPlace {
        let entry = (self.seconds, self.name);
        loop {
            let changed = STORIES.changed.notified();
            {
                let mut state = STORIES.lock();
                let lane = (self.lane)(&mut state);
                let sum = lane.taken + self.weight;
                let (is_next, fits) =
                    (lane.waiting.last() == Some(&entry), sum <= lane.places || lane.taken == 0);
                let may_fit = sum <= lane.most;
                if is_next && (fits || may_fit && state.take_spare(self.weight)) {
                    let lane = (self.lane)(&mut state);
                    lane.waiting.remove(&entry);
                    lane.taken = sum;
                    STORIES.changed.notify_waiters();
                    let deadline = DEADLINE + Duration::from_secs(u64::from(2 * self.seconds));
                    return StoryPlace {
                        weight: self.weight,
                        lane: self.lane,
                        began: Instant::now(),
                        deadline,
                        _watch: watch(entry.1.clone(), deadline + GRACE),
                        name: entry.1,
                    };
                }
            }
            let _ = tokio::time::timeout(IDLE, changed).await;
        }
    }

    /// Same as [`Self::place`], for a story that isn't asynchronous.
    pub fn wait(self) -> StoryPlace {
        RUNTIME.block_on(self.place())
    }
}

impl StoryPlace {
    /// Runs the story's steps. The story fails at its deadline.
    pub async fn run<T>(&self, steps: impl Future<Output = T>) -> T {
        let outcome = tokio::time::timeout(self.deadline, steps).await;
        outcome.unwrap_or_else(|_| panic!("the story did not end within {:?}", self.deadline))
    }
}

/// Exits the program if the returned sender isn't dropped within `deadline`. `.ci/run` finds the story by the printed line.
fn watch(name: String, deadline: Duration) -> mpsc::Sender<()> {
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        if ended.recv_timeout(deadline) == Err(RecvTimeoutError::Timeout) {
            let text = format!("\nHANGING STORY {name}: it still blocks its thread after {deadline:?}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::exit(1);
        }
    });
    sender
}

impl Drop for StoryPlace {
    fn drop(&mut self) {
        let mut state = STORIES.lock();
        (self.lane)(&mut state).taken -= self.weight;
        state.finished.push((self.began.elapsed(), std::mem::take(&mut self.name)));
        if state.beside_others.is_idle() && state.one_by_one.is_idle() && state.finished.len() > SHOWN {
            state.print_slowest();
        }
        STORIES.changed.notify_waiters();
    }
}

impl State {
    /// Returns true if a story with this weight may start because processors are idle.
    fn take_spare(&mut self, weight: u32) -> bool {
        if self.spare == 0 {
            if !self.measured.is_low() {
                return false;
            }
            self.spare = PLACES;
        }
        self.spare = self.spare.saturating_sub(weight);
        true
    }

    /// Prints the slowest stories and the processor time. Writes to standard error directly, because the test harness captures the output
    /// of tests that pass.
    fn print_slowest(&mut self) {
        self.finished.sort_unstable_by(|one, other| other.cmp(one));
        let line = |(took, name): &(Duration, String)| format!("{:6.0} s  {name}\n", took.as_secs_f64());
        let slowest: String = self.finished.iter().take(SHOWN).map(line).collect();
        let (took, busy) = self.began.since();
        let minutes = took.as_secs_f64() / 60.0;
        let text = format!(
            "\n\nthe slowest of {} stories, which took {minutes:.1} min, and {:.1} min of processor time:\n{slowest}",
            self.finished.len(),
            busy.as_secs_f64() / 60.0
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// An instant, and the processor time that the machine has used until then.
struct Load {
    at: Instant,
    busy: Duration,
}

impl Load {
    fn now() -> Self {
        Self { at: Instant::now(), busy: busy() }
    }

    /// Returns the elapsed time and the processor time since then.
    fn since(&self) -> (Duration, Duration) {
        (self.at.elapsed(), busy().saturating_sub(self.busy))
    }

    /// Returns true if a sixth of the processor time was idle since the last measurement, and [`FREE`] memory is available. Measures again
    /// only after [`IDLE`].
    fn is_low(&mut self) -> bool {
        let (took, busy) = self.since();
        if took < IDLE || free_memory() < FREE {
            return false;
        }
        *self = Self::now();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        busy.as_secs_f64() < 0.83 * took.as_secs_f64() * f64::from(u32::try_from(processors).unwrap_or(1))
    }
}

/// Returns the maximum total weight on this machine. Cluster API's managers exit if they can't create an inotify instance. The usual
/// limit is 128 per user.
fn most() -> u32 {
    let instances = plane::inotify::left(INSTANCES * MOST as usize);
    u32::try_from(instances / INSTANCES).unwrap_or(MOST).max(PLACES)
}

/// Returns the available memory in KiB, or zero if the kernel doesn't report it.
fn free_memory() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    free.and_then(|free| free.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Returns the processor time that all programs have used since boot, or zero if the kernel doesn't report it.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    let (user, nice, system, _idle, _iowait, irq, softirq) =
        (next(), next(), next(), next(), next(), next(), next());
    // The kernel counts in hundredths of a second.
    Duration::from_millis(10 * (user + nice + system + irq + softirq))
}

/// Starts all tests at once, unless the caller passed `--test-threads`. The harness starts tests in alphabetical order, and reads the
/// thread count from its environment. So the program replaces itself.
fn start_all_at_once() {
    const THREADS: &str = "RUST_TEST_THREADS";
    const ALL: &str = "256";
    let chosen = std::env::args().any(|argument| argument.starts_with("--test-threads"));
    if chosen || std::env::var(THREADS).is_ok_and(|threads| threads == ALL) {
        return;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let mut again = Command::new(program);
    again.args(std::env::args_os().skip(1)).env(THREADS, ALL);
    if std::env::var_os("GOGC").is_none() {
        // The API servers use most of the processor time. With this setting, they collect garbage less often, and need more memory.
        again.env("GOGC", "400");
    }
    let error = again.exec();
    panic!("the stories do not start: {error}");
}

/// A renamed story would get the weight of a short one.
#[test]
fn long_stories_have_the_names_of_stories() {
    let program = std::env::current_exe().expect("the path of this program");
    let listed = Command::new(program).arg("--list").output().expect("the list of stories").stdout;
    let listed = String::from_utf8_lossy(&listed);
    let stories: BTreeSet<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let unknown: Vec<_> =
        LONG.iter().map(|(name, ..)| *name).filter(|name| !stories.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
