//! Programs whose flushes do nothing, without a change to the program: a seccomp filter answers
//! every flush call with success and does not carry it out. It works on a program that makes its
//! system calls itself, where a preloaded library would not.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whether a program's flushes reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushes {
    /// They do.
    Honest,
    /// They report success and do nothing.
    Ignored,
}

/// Every system call that makes data durable.
const FLUSH_CALLS: [libc::c_long; 6] = [
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_sync,
    libc::SYS_syncfs,
];

impl Flushes {
    /// Prepares `command` so that its process, and all that it starts, has these flushes.
    pub fn apply(self, command: &mut Command) {
        if self == Self::Honest {
            return;
        }
        let filter = filter();
        // SAFETY: between fork and exec only `prctl` is called, which is async-signal-safe, on
        // memory that the closure owns.
        unsafe {
            command.pre_exec(move || install(&filter));
        }
    }
}

fn filter() -> Vec<libc::sock_filter> {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // The number of the call is the first field of what the filter sees.
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (index, call) in FLUSH_CALLS.iter().enumerate() {
        let to_pretend = (FLUSH_CALLS.len() - index) as u8;
        program.push(libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: to_pretend,
            jf: 0,
            k: *call as u32,
        });
    }
    program.push(statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ALLOW,
    ));
    // An error number of zero: the call returns 0 and is not carried out.
    program.push(statement(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ERRNO,
    ));
    program
}

fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: plain calls; the kernel copies the filter before the second one returns.
    let installed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
                0,
                0,
            ) == 0
    };
    if installed {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
