//! Makes a program record its writes to API servers, and kill itself at one such write.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, getpid, kill_process};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::proxy::call::ApiCall;
use crate::proxy::injections::ParkPoint;

/// The environment variable that names the notes file. Each line is a program, a tab, and verb and resource.
pub const NOTES: &str = "CLUSTER_FAULTS_NOTES";
/// The environment variable with the write at which a process kills itself, as [`fault`] formats it.
pub const FAULT: &str = "CLUSTER_FAULTS_FAULT";
/// The note that a process leaves before it kills itself.
pub const KILLED: &str = "killed";

/// The command name.
pub const COMMAND: &str = "layercake";
/// The bootstrap cluster process.
pub const SERVE: &str = "layercake bootstrap serve";

/// The span that the client opens around a request.
const SPAN: &str = "HTTP";

/// Formats a value for [`FAULT`].
pub fn fault(program: &str, what: &str, point: ParkPoint) -> String {
    format!("{program}\t{what}\t{point:?}")
}

/// The programs that record their writes.
pub const PROGRAMS: [&str; 5] = [COMMAND, SERVE, "gcm", "capw", "vmop"];

/// Makes this process record its writes and kill itself, if [`NOTES`] and [`FAULT`] say so. `args` are its arguments.
pub fn start(args: &[OsString]) {
    let Some(notes) = std::env::var_os(NOTES) else { return };
    let name = args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    let is_serve =
        args.get(1).is_some_and(|arg| arg == "bootstrap") && args.get(2).is_some_and(|arg| arg == "serve");
    let name = if is_serve { Some(SERVE) } else { name };
    let Some(program) = PROGRAMS.into_iter().find(|program| Some(*program) == name) else { return };
    let killer = Killer { program, notes: notes.into(), fault: std::env::var(FAULT).ok() };
    tracing_subscriber::registry().with(killer).init();
}

struct Killer {
    program: &'static str,
    notes: PathBuf,
    fault: Option<String>,
}

/// A request's verb and resource, stored in its span.
struct Writes(String);

impl Killer {
    fn note(&self, what: &str) {
        let file = File::options().create(true).append(true).open(&self.notes);
        let line = format!("{}\t{what}\n", self.program);
        // Without the note, the case counts as missed.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }

    fn kill_at(&self, what: &str, point: ParkPoint) {
        let is_fault = self.fault.as_deref() == Some(&fault(self.program, what, point));
        // The restarted program must not kill itself again.
        let was_killed = || std::fs::read_to_string(&self.notes).is_ok_and(|notes| notes.contains(KILLED));
        if is_fault && !was_killed() {
            self.note(KILLED);
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Killer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && metadata.name() == SPAN
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut request = Request::default();
        attributes.record(&mut request);
        let Some(what) = request.written() else { return };
        self.note(&what);
        self.kill_at(&what, ParkPoint::Before);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Writes(what));
        }
    }

    // The client records the response status here.
    fn on_record(&self, id: &Id, _: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Writes(what)) = span.extensions().get() {
            self.kill_at(what, ParkPoint::After);
        }
    }
}

/// The span fields that describe the request.
#[derive(Default)]
struct Request {
    method: String,
    url: String,
}

impl Visit for Request {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "http.method" => self.method = format!("{value:?}"),
            "http.url" => self.url = format!("{value:?}"),
            _ => {}
        }
    }
}

impl Request {
    /// Returns the verb and resource if the request changes an object.
    fn written(&self) -> Option<String> {
        let request = http::Request::builder().method(self.method.as_str()).uri(self.url.as_str());
        let (parts, ()) = request.body(()).ok()?.into_parts();
        let call = ApiCall::from_request(&parts, b"");
        let is_trial = parts.uri.query().is_some_and(|query| query.contains("dryRun="));
        (call.is_write() && !is_trial).then(|| format!("{} {}", call.verb, call.resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_requests_that_change_objects() {
        let written = |method: &str, path: &str| {
            let request = Request { method: method.to_owned(), url: format!("https://127.0.0.1:6443{path}") };
            request.written()
        };
        assert_eq!(written("PATCH", "/api/v1/namespaces/a?fieldManager=b").unwrap(), "PATCH namespaces");
        for (method, path) in [
            ("GET", "/api/v1/namespaces/a"),
            ("PATCH", "/api/v1/namespaces/a?dryRun=All"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ] {
            assert_eq!(written(method, path), None, "{method} {path}");
        }
    }
}
