//! System calls, which seccomp restricts.
//!
//! The list follows the default profile of Docker (moby/profiles, `seccomp/default.json`, and its
//! documentation) and the groups `@debug`, `@keyring`, `@module`, `@mount`, `@raw-io`, `@reboot`,
//! `@swap` and `@clock` of systemd (`systemd.exec(5)`, `SystemCallFilter=`). Refused calls fail
//! with EPERM.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::RunSandboxed;

/// Calls that change the system, enter namespaces, use other processes or keys of the kernel, or
/// are a frequent way to attack it.
const REFUSED: [i64; 49] = [
    // Other processes. Landlock also refuses to trace processes outside the sandbox.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // The kernel and its modules.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    // Files by handle, which passes over the permissions of folders.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Clocks.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    // Keys of the kernel, which namespaces and accounts share.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large interfaces of the kernel with a history of defects.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Refused calls that only some machines have.
#[cfg(target_arch = "x86_64")]
const REFUSED_ON_THIS_MACHINE: &[i64] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
/// Refused calls that only some machines have: `kexec_file_load`, whose number libc does not define
/// for all of them (include/uapi/asm-generic/unistd.h).
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ON_THIS_MACHINE: &[i64] = &[294];

/// The flags of `clone` that create namespaces (CLONE_NEW* in include/uapi/linux/sched.h).
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The bits of the second argument of `socket` and `socketpair` that are the type. The others are
/// flags.
const SOCKET_TYPE_MASK: u64 = 0xf;
/// The types of Internet sockets that need neither TCP nor UDP: raw, RDM, sequenced packets (SCTP),
/// DCCP and packets (include/linux/net.h).
const OTHER_SOCKET_TYPES: [i32; 5] = [3, 4, 5, 6, 10];

/// The rules of each system call: it is refused if any of them matches, or if there is none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Restricts the system calls of this thread, and of the program that it executes, as `run` says.
/// Limits of other processes cannot be set in any case.
///
/// # Errors
/// The kernel or the machine has no such restriction.
pub(super) fn restrict(run: &RunSandboxed) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!(
            "system calls cannot be restricted (seccomp: {error}): a kernel with seccomp filters \
             is needed"
        )
    };
    for program in programs(run).map_err(|error| failed(&error))? {
        seccompiler::apply_filter(&program).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// Returns the filters.
fn programs(run: &RunSandboxed) -> Result<Vec<BpfProgram>, BackendError> {
    let mut programs = Vec::new();
    // A limit of processor time ends a process, and the kernel compares accounts only. C libraries
    // call it for the own process, whose id they write as 0.
    let sets_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let limits = vec![SeccompRule::new(vec![is_not(0, 0)?, sets_limit])?];
    let mut rules = Rules::from([(libc::SYS_prlimit64, limits)]);
    if run.restrict_system_calls {
        let refused = REFUSED.iter().chain(REFUSED_ON_THIS_MACHINE);
        rules.extend(refused.map(|call| (*call, Vec::new())));
        let flags = NAMESPACE_FLAGS.map(|flag| SeccompRule::new(vec![has_bits(0, flag)?]));
        rules.insert(libc::SYS_clone, flags.into_iter().collect::<Result<_, _>>()?);
        // The flags of `clone3` are in memory, which a filter cannot read. C libraries fall back to
        // `clone` if the kernel does not have it.
        let missing = Rules::from([(libc::SYS_clone3, Vec::new())]);
        programs.push(program(missing, libc::ENOSYS)?);
    }
    if run.restrict_network {
        // Requests in the ring of io_uring pass no filter.
        rules.insert(libc::SYS_io_uring_setup, Vec::new());
        // TCP Fast Open connects without the call that Landlock restricts.
        for (call, argument) in
            [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)]
        {
            let flag = has_bits(argument, libc::MSG_FASTOPEN)?;
            rules.insert(call, vec![SeccompRule::new(vec![flag])?]);
        }
        // A datagram socket of a pair can send to any Unix socket. Those of a stream cannot.
        let mask = SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK);
        let is_datagram = condition(1, mask, libc::SOCK_DGRAM)?;
        rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![is_datagram])?]);
    }
    if run.restrict_system_calls || run.restrict_network {
        rules.insert(libc::SYS_socket, sockets(run)?);
    }
    programs.push(program(rules, libc::EPERM)?);
    Ok(programs)
}

/// Returns the rules that refuse sockets.
fn sockets(run: &RunSandboxed) -> Result<Vec<SeccompRule>, BackendError> {
    // Libraries list the addresses of the machine by Netlink.
    let mut families = vec![libc::AF_NETLINK];
    if !run.restrict_network {
        // Landlock does not restrict Unix sockets in folders before Linux 7.1. A service behind
        // one, such as that of Docker, may run programs outside the sandbox.
        families.push(libc::AF_UNIX);
    }
    let internet = [libc::AF_INET, libc::AF_INET6];
    if !run.restrict_network || !run.connect.is_empty() {
        families.extend(internet);
    }
    let other = families.iter().map(|family| is_not(0, *family)).collect::<Result<_, _>>()?;
    let mut rules = vec![SeccompRule::new(other)?];
    if run.restrict_network {
        // Landlock restricts the ports of TCP only. Multipath TCP and SCTP would reach others.
        for family in internet {
            rules.push(SeccompRule::new(vec![
                is(0, family)?,
                is_not(2, libc::IPPROTO_IP)?,
                is_not(2, libc::IPPROTO_TCP)?,
                is_not(2, libc::IPPROTO_UDP)?,
            ])?);
            for kind in OTHER_SOCKET_TYPES {
                let mask = SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK);
                rules.push(SeccompRule::new(vec![is(0, family)?, condition(1, mask, kind)?])?);
            }
        }
    }
    Ok(rules)
}

/// Returns a filter that lets the calls of `rules` fail with an error number.
fn program(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine)?;
    let mut program = other_numbers();
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

/// Returns instructions that refuse the x32 calls of x86_64, which have other numbers and the same
/// architecture (`seccomp(2)`). The rest of a filter follows.
fn other_numbers() -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    /// The bit of the numbers of x32 (`__X32_SYSCALL_BIT`).
    const X32: u32 = 0x4000_0000;
    let refuse = u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs()));
    // Load the number; if it is at least `X32`, continue, otherwise skip one; return.
    vec![
        sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        sock_filter { code: 0x35, jt: 0, jf: 1, k: X32 },
        sock_filter { code: 0x06, jt: 0, jf: 0, k: refuse },
    ]
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::Ne, value)
}

fn has_bits(argument: u8, bits: i32) -> Result<SeccompCondition, BackendError> {
    condition(argument, SeccompCmpOp::MaskedEq(unsigned(bits)), bits)
}

/// Returns a condition on an argument. All arguments here are C integers, or flags in the lower 32
/// bits of one, of which the kernel ignores the upper bits.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: i32,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, unsigned(value))
}

fn unsigned(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}
