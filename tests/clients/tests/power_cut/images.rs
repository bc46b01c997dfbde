//! Mounts what power cuts left, starts the program on each, and checks the promises.

use std::sync::{Mutex, PoisonError, mpsc};

use odradek_client_tests::chance::Chance;
use odradek_client_tests::cut::PowerCuts;
use odradek_client_tests::disk::{Disk, History, Image};
use odradek_client_tests::fuse::DiskServer;
use odradek_client_tests::mount::Mounted;
use odradek_client_tests::program::Program;
use odradek_client_tests::wire::Connection;
use odradek_client_tests::work_dir::WorkDir;

use crate::promises::Promises;
use crate::workload::options;

/// Images that were rejected are saved for a look, but only so many: each can have the size of the
/// disk.
const KEPT_IMAGES: usize = 3;

pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) images: usize,
    /// Each image whose number this divides loses power a second time, while the program recovers
    /// on it.
    pub(crate) recovery_cut_every: usize,
}

/// One image to check.
struct Job {
    number: usize,
    cut: usize,
    image: Image,
}

/// Checks the images of a plan and gives what was wrong, one entry an image.
pub(crate) fn check_images(
    server: &DiskServer,
    work: &WorkDir,
    history: &History,
    promises: &Promises,
    plan: &Plan,
) -> Vec<String> {
    let mut cuts: Vec<usize> = (0..plan.images as u64)
        .map(|index| Chance::of(plan.seed, index).below(history.events.len() as u64 + 1) as usize)
        .collect();
    // Whatever the seed, the power also goes right after the last acknowledgement.
    cuts[0] = history.events.len();
    cuts.sort_unstable();

    let violations = Mutex::new(Vec::new());
    // An image waits in memory until a worker is free; more than one waiting would only use memory.
    let (sender, jobs) = mpsc::sync_channel::<Job>(1);
    let jobs = Mutex::new(jobs);
    std::thread::scope(|threads| {
        for worker in 0..2 {
            let (jobs, violations) = (&jobs, &violations);
            threads.spawn(move || {
                let site = Site {
                    server,
                    work,
                    promises,
                    plan,
                    worker,
                };
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { break };
                    let (number, cut, image) = (job.number, job.cut, job.image.clone());
                    if let Err(violation) = site.check(job) {
                        let mut violations =
                            violations.lock().unwrap_or_else(PoisonError::into_inner);
                        if violations.len() < KEPT_IMAGES {
                            image.save(&work.join(format!("rejected-{number}.img")));
                        }
                        violations.push(format!(
                            "image {number}, power cut after event {cut}: {violation}"
                        ));
                    }
                }
            });
        }
        let mut power_cuts = PowerCuts::new(history);
        for (number, cut) in cuts.into_iter().enumerate() {
            let image = power_cuts.image(
                cut,
                &mut Chance::of(plan.seed, (plan.images + number) as u64),
            );
            sender
                .send(Job { number, cut, image })
                .expect("the workers wait for images until there are no more");
        }
        drop(sender);
    });
    violations
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Where one worker mounts its images, one after the other.
struct Site<'a> {
    server: &'a DiskServer,
    work: &'a WorkDir,
    promises: &'a Promises,
    plan: &'a Plan,
    worker: usize,
}

impl Site<'_> {
    fn check(&self, job: Job) -> Result<(), String> {
        let disk = Disk::new(job.image);
        let is_cut_again = (job.number + 1).is_multiple_of(self.plan.recovery_cut_every);
        if is_cut_again {
            disk.start_history();
        }
        let shown = self.start_and_check(&disk, self.promises, job.cut)?;
        if !is_cut_again {
            return Ok(());
        }

        let history = disk.history();
        let mut chance = Chance::of(self.plan.seed, (2 * self.plan.images + job.number) as u64);
        // Half of them right after readers saw what was recovered, when that must stay as well.
        let second_cut = if chance.below(2) == 0 {
            shown.events
        } else {
            chance.below(shown.events as u64 + 1) as usize
        };
        let mut promises = self.promises.clone();
        if second_cut == shown.events {
            for (partition, end) in (0..).zip(shown.ends) {
                promises.records_below(partition, end, job.cut);
            }
        }
        let image = PowerCuts::new(&history).image(second_cut, &mut chance);
        self.start_and_check(&Disk::new(image), &promises, job.cut)
            .map(|_| ())
            .map_err(|violation| {
                format!("and again after event {second_cut} of the recovery: {violation}")
            })
    }

    fn start_and_check(
        &self,
        disk: &std::sync::Arc<Disk>,
        promises: &Promises,
        cut: usize,
    ) -> Result<Shown, String> {
        let served = self.server.add(disk.clone());
        let mounted = Mounted::new(
            served.path(),
            &self.work.join(format!("image-{}", self.worker)),
        )?;
        let options = options(
            mounted.folder(),
            self.work.join(format!("images-{}.log", self.worker)),
        );
        let program = Program::start(&options)
            .map_err(|error| format!("the program does not start: {error}"))?;
        let mut connection =
            Connection::open(program.address()).map_err(|error| format!("{error:?}"))?;
        let ends = promises.check(&mut connection, cut)?;
        let shown = Shown {
            ends,
            events: disk.event_count(),
        };
        program.kill();
        Ok(shown)
    }
}

/// What readers saw on an image.
struct Shown {
    /// By partition, the end of the log.
    ends: Vec<i64>,
    /// The events of the image's own disk at that time.
    events: usize,
}
