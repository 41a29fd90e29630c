//! Job objects: processes that end together.
use std::{
    io,
    mem::size_of,
    os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle},
    ptr,
};
use tokio::process::Child;
use windows_sys::Win32::{
    Foundation::INVALID_HANDLE_VALUE,
    System::{
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
        },
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
            JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
            JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
            QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
        },
        Threading::{OpenThread, ResumeThread, THREAD_SUSPEND_RESUME},
    },
};

/// Exit code of processes that are killed.
const KILLED: u32 = 137;

/// Processes with all their descendants. Windows kills them when the job is dropped, also if this program is killed.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

impl Job {
    /// Creates a job without processes.
    #[allow(unsafe_code, reason = "the standard library has no job objects")]
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: null means the default rights, and no name.
        let job = owned(unsafe { CreateJobObjectW(ptr::null(), ptr::null()) })?;
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the handle is open, and the pointer and the length are those of the structure that this class needs.
        succeeded(unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                length_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
            )
        })?;
        Ok(Self(job))
    }

    /// Adds a process that was created suspended, and lets it run. Its descendants belong to the job, too.
    #[allow(unsafe_code, reason = "the standard library has no job objects")]
    pub(super) fn start(&self, child: &Child) -> io::Result<()> {
        let (Some(process), Some(id)) = (child.raw_handle(), child.id()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        // SAFETY: both handles are open.
        succeeded(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process) })?;
        resume(id)
    }

    /// Kills all processes of the job.
    #[allow(unsafe_code, reason = "the standard library has no job objects")]
    pub(super) fn terminate(&self) {
        // SAFETY: the handle is open.
        let _ = unsafe { TerminateJobObject(self.0.as_raw_handle(), KILLED) };
    }

    /// Returns whether any process of the job runs.
    #[allow(unsafe_code, reason = "the standard library has no job objects")]
    pub(super) fn has_processes(&self) -> bool {
        let mut figures = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the handle is open, and the pointer and the length are those of the structure that this class fills.
        let status = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut figures).cast(),
                length_of::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>(),
                ptr::null_mut(),
            )
        };
        status != 0 && figures.ActiveProcesses > 0
    }
}

/// Resumes the threads of a process: the only one of a process that was created suspended.
#[allow(
    unsafe_code,
    reason = "the standard library does not return the handle of the thread"
)]
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    let snapshot = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread = THREADENTRY32 {
        dwSize: length_of::<THREADENTRY32>(),
        ..THREADENTRY32::default()
    };
    let mut is_resumed = false;
    // SAFETY: the handle is open, and the structure knows its length.
    let mut status = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut thread) };
    while status != 0 {
        if thread.th32OwnerProcessID == process {
            // SAFETY: the call takes three numbers.
            let handle = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread.th32ThreadID) };
            let handle = owned(handle)?;
            // SAFETY: the handle is open.
            is_resumed |= unsafe { ResumeThread(handle.as_raw_handle()) } != u32::MAX;
        }
        // SAFETY: as for the first one.
        status = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut thread) };
    }
    if is_resumed {
        Ok(())
    } else {
        Err(io::Error::other("its thread does not run"))
    }
}

/// Takes a new handle, which is null or [`INVALID_HANDLE_VALUE`] after an error.
#[allow(
    unsafe_code,
    reason = "the standard library does not know these handles"
)]
fn owned(handle: windows_sys::Win32::Foundation::HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the callers pass the result of a call that opens a handle, and nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Returns the error of a call that returned zero.
fn succeeded(status: i32) -> io::Result<()> {
    if status == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the length of a structure in the type that Windows wants.
#[allow(
    clippy::cast_possible_truncation,
    reason = "no structure is that large"
)]
const fn length_of<T>() -> u32 {
    size_of::<T>() as u32
}
